"""A loop over the FastMCP client and the OpenAI SDK. Arguments: servers, model, prompt."""

import asyncio
import json
import sys
from pathlib import Path

from fastmcp import Client
from openai import AsyncOpenAI


async def main(servers: str, address: str, prompt: str) -> None:
    model = AsyncOpenAI(base_url=f"{address}/v1", api_key="x")
    messages = [{"role": "user", "content": prompt}]
    config = {"mcpServers": json.loads(Path(servers).read_text())}
    async with Client(config, init_timeout=180) as client:
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description or "",
                    "parameters": schema_of(tool),
                },
            }
            for tool in await client.list_tools()
        ]
        while True:
            reply = await model.chat.completions.create(
                model="scripted", messages=messages, tools=tools
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                sys.stdout.write(f"{message.content}\n")
                return
            for call in message.tool_calls:
                arguments = json.loads(call.function.arguments)
                result = await client.call_tool(call.function.name, arguments, raise_on_error=False)
                text = "\n".join(getattr(part, "text", "") for part in result.content)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def schema_of(tool) -> dict:
    """The input schema, by the name that this version of the SDK has."""
    return tool.inputSchema if hasattr(tool, "inputSchema") else tool.input_schema


asyncio.run(main(*sys.argv[1:]))
