"""A real MCP server for tests: a few tools that succeed, fail, take long, or end the process."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer(sys.argv[1] if len(sys.argv) > 1 else "sample")


@server.tool()
def add_numbers(first: int, second: int) -> int:
    """Add two numbers and give their sum."""
    return first + second


@server.tool()
def repeat_text(text: str, times: int) -> str:
    """Repeat a text a number of times."""
    return text * times


@server.tool()
def fail_on_purpose(reason: str) -> str:
    """Fail with an error that says the reason."""
    raise ValueError(reason)


@server.tool()
def end_process() -> str:
    """End the server's process at once."""
    os._exit(3)


if __name__ == "__main__":
    server.run()
