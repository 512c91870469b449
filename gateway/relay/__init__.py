"""What passes between clients and servers besides tools.

Resources, prompts, completions, subscriptions, log messages. `relay` forwards one request with its
questions.
"""
