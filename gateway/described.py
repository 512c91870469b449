"""Servers with a description only. They start when the model calls their description."""

from __future__ import annotations

import json

import mcp.types as types

from ..catalog import Tool

#: Name of the placeholder tool for such a server.
START = "start_server"


def start_tool(server: str, description: str) -> Tool:
    """The placeholder that a search finds for a server whose tools are not known yet.

    Args:
        server: its name.
        description: purpose of the server, written by the operator.
    """
    how = f"Call this to start the server {server}; its tools are found then."
    return Tool(
        START, server, f"{description.strip()}\n\n{how}", {"type": "object", "properties": {}}
    )


def started_result(server: str) -> types.CallToolResult:
    """The answer to a call of `start_tool`."""
    how = json.dumps({"query": "...", "server": server}, ensure_ascii=False)
    text = f"The server {server!r} is started. Find its tools with search_tools {how}"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content={"server": server, "started": True},
    )
