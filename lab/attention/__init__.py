"""The Tool Attention benchmark: compares methods of showing tools by tokens and by coverage.

The tasks were written for this project, for the demo's 120 tools. No setting of shortlist was
chosen on them.
"""
