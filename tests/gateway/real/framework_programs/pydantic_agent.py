"""An agent of pydantic-ai over MCP servers. Arguments: servers, model, prompt."""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main(servers: str, address: str, prompt: str) -> None:
    provider = OpenAIProvider(base_url=f"{address}/v1", api_key="x")
    toolsets = [
        MCPToolset(StdioTransport(**entry), init_timeout=180, read_timeout=180).prefixed(name)
        for name, entry in json.loads(Path(servers).read_text()).items()
    ]
    agent = Agent(OpenAIChatModel("scripted", provider=provider), toolsets=toolsets)
    async with agent:
        sys.stdout.write(f"{(await agent.run(prompt)).output}\n")


asyncio.run(main(*sys.argv[1:]))
