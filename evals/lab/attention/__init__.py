"""The Tool Attention benchmark: what each way of showing tools costs, and whether it offers them.

Tasks were written for this project, one by one, over the demo's 120 tools, and nothing of
shortlist was chosen on them.
"""
