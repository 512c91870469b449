"""Servers that are known by a description only, until one of their tools is wanted."""

from __future__ import annotations

import json

import mcp.types as types

from ..catalog import Tool

#: Name of the tool that stands for such a server.
START = "start_server"


def start_tool(server: str, description: str) -> Tool:
    """What is found in place of the tools of a server that never ran here.

    Args:
        server: its name.
        description: purpose of the server, in the operator's words.
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
