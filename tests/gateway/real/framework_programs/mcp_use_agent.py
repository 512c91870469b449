"""An agent of mcp-use over MCP servers. Arguments: servers, model, prompt."""

import asyncio
import json
import sys
from pathlib import Path

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient


async def main(servers: str, address: str, prompt: str) -> None:
    client = MCPClient.from_dict({"mcpServers": json.loads(Path(servers).read_text())})
    model = ChatOpenAI(model="scripted", base_url=f"{address}/v1", api_key="x")
    agent = MCPAgent(llm=model, client=client, max_steps=10)
    sys.stdout.write(f"{await agent.run(prompt)}\n")
    await client.close_all_sessions()


asyncio.run(main(*sys.argv[1:]))
