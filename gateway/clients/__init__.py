"""Configuration files of MCP clients: read, imported, edited, installed into.

`read_client_config` gives a `ClientConfig` with its `ServerSpec`s.
"""
