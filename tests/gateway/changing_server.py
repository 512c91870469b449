"""A real MCP server for tests, of both eras, whose list of tools changes when it is asked to.

Arguments: the transport, and for HTTP the port.
"""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("changing")


@server.tool(annotations={"readOnlyHint": True})
def say_word(word: str) -> str:
    """Say a word."""
    return word


@server.tool()
def large_text(size: int) -> str:
    """A text of this many characters."""
    return "y" * size


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool of this name."""
    server.add_tool(lambda: name, name=name, description=f"Say {name}")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "stdio":
        server.run()
    else:
        server.run(
            kind, port=int(sys.argv[2]), **({"json_response": True} if kind == "json" else {})
        )
