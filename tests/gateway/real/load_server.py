"""A server for the load test: says who it is, keeps nothing, and changes its list when asked.

python load_server.py NAME
"""

import asyncio
import os
import sys

import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NAME = sys.argv[1]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
changes = 0


async def list_tools(context, params):
    listed = [
        types.Tool(name="say", description=f"Say a text as {NAME}.", input_schema=TEXT),
        types.Tool(
            name="say_at_length", description=f"Say a text at length as {NAME}.", input_schema=TEXT
        ),
        types.Tool(
            name="process",
            description=f"The process of {NAME}.",
            input_schema=NOTHING,
        ),
        types.Tool(
            name="change",
            description=f"Change the list of {NAME}.",
            input_schema=NOTHING,
        ),
    ]
    if changes % 2:
        listed.append(
            types.Tool(
                name="extra",
                description=f"A further tool of {NAME}.",
                input_schema=NOTHING,
            )
        )
    return types.ListToolsResult(tools=listed)


async def call_tool(context, params):
    global changes
    text = (params.arguments or {}).get("text", "")
    if params.name == "say":
        await asyncio.sleep(0.002)
        said = f"{NAME}:{text}"
    elif params.name == "say_at_length":
        said = f"{NAME}:{text} " * 200
    elif params.name == "process":
        said = str(os.getpid())
    elif params.name == "change":
        changes += 1
        await context.session.send_tool_list_changed()
        said = str(changes)
    else:
        said = f"{NAME}:extra"
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def main():
    server = Server(NAME, on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


asyncio.run(main())
