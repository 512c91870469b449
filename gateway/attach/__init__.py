"""One gateway for all clients of a machine.

The process that a client starts connects to a running gateway. It needs the standard library only.
"""
