"""An agent of LangChain over MCP servers. Arguments: servers, model, prompt."""

import asyncio
import json
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main(servers: str, address: str, prompt: str) -> None:
    entries = json.loads(Path(servers).read_text())
    client = MultiServerMCPClient(
        {name: {"transport": "stdio", **entry} for name, entry in entries.items()}
    )
    model = ChatOpenAI(model="scripted", base_url=f"{address}/v1", api_key="x")
    agent = create_agent(model, await client.get_tools())
    answer = await agent.ainvoke({"messages": [("user", prompt)]})
    sys.stdout.write(f"{answer['messages'][-1].content}\n")


asyncio.run(main(*sys.argv[1:]))
