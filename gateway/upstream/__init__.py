"""The servers behind the gateway.

`Fleet` starts, lists, calls and stops them; each call carries the `Caller` that gets the server's
questions.
"""
