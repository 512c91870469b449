"""Measures speed and size: times per tier and stage, index build, start, memory; and the limits.

Compared calls alternate in the same run, so that other load of the machine affects both. Memory and
start are measured in new processes.
"""
