"""An agent of the OpenAI Agents SDK over MCP servers. Arguments: servers, model, prompt."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main(servers: str, address: str, prompt: str) -> None:
    set_tracing_disabled(True)
    model = OpenAIResponsesModel("scripted", AsyncOpenAI(base_url=f"{address}/v1", api_key="x"))
    async with AsyncExitStack() as stack:
        connected = [
            await stack.enter_async_context(
                MCPServerStdio(params=entry, name=name, client_session_timeout_seconds=180)
            )
            for name, entry in json.loads(Path(servers).read_text()).items()
        ]
        agent = Agent(name="assistant", model=model, mcp_servers=connected)
        sys.stdout.write(f"{(await Runner.run(agent, prompt)).final_output}\n")


asyncio.run(main(*sys.argv[1:]))
