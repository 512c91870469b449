"""Connections to one MCP server.

Its process or address, its login, its log, and its secrets masked. `transport_over` opens a
connection from a `ServerSpec`.
"""
