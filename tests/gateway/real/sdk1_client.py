"""A client on SDK 1.x, run by a Python that has it: JSON lines in, JSON lines out.

    python sdk1_client.py http://127.0.0.1:8765/mcp
    python sdk1_client.py shortlist serve --config mcp.json

Each line in is `{"name": ..., "arguments": {...}}`, a call of a tool; without `name`, it asks for
the list of tools. Each line out is the result as JSON.
"""

import json
import os
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(words):
    if words[0].startswith("http"):
        transport = streamablehttp_client(words[0])
    else:
        parameters = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
        transport = stdio_client(parameters)
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        async for line in anyio.wrap_file(sys.stdin):
            asked = json.loads(line)
            if "name" in asked:
                result = await session.call_tool(asked["name"], asked["arguments"])
            else:
                result = await session.list_tools()
            sys.stdout.write(result.model_dump_json(by_alias=True, exclude_none=True) + "\n")
            sys.stdout.flush()


anyio.run(main, sys.argv[1:])
