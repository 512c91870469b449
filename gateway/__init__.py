"""The gateway: any MCP client in front, real MCP servers behind."""
