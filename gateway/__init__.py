"""An MCP server in front of many: three tools in place of hundreds."""
