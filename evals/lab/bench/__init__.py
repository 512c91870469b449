"""Speed and size: milliseconds per tier and stage, index build, cold start, memory, and the bars.

What is compared is measured in the same run, call by call in turn, so that whatever else the
machine does falls on both sides. Figures that need a process of their own (memory, start) get one.
"""
