"""Configuration files of MCP clients: read, imported, edited, installed into.

`known_clients` is the table of clients, and `config_file` reads and writes a file of any type.
`read_client_config` gives a `ClientConfig` with its `ServerSpec`s; `plan_install` and `plan_undo`
give the changes of an installation.
"""
