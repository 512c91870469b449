"""Tokens of one task through the gateway: call by call, and as one script."""

from __future__ import annotations

import json

import anyio
import mcp.types as types
import pytest
from mcp import Client

from shortlist.gateway.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.loaders.counting import bundled_counter

from .fake_servers import READ, WRITE, FakeServer, fleet_of, tool

ENTRIES, PAGE = 3_000, 100
OFFSET = {"type": "object", "properties": {"offset": {"type": "integer"}}, "required": ["offset"]}
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
SCRIPT = """
errors = set()
for offset in range(0, 3000, 100):
    page = await logs.read(offset=offset)
    errors |= {e['text'] for e in page['entries'] if e['level'] == 'error'}
made = [await issues.create(title=text) for text in sorted(errors)]
len(made)
"""


@pytest.fixture
def anyio_backend():
    return "asyncio"


def entry(at: int) -> dict:
    failed = at % 97 == 0
    text = f"no space on disk {at % 5}" if failed else f"GET /orders/{at} answered in {at % 90} ms"
    return {
        "at": f"2026-01-02T03:{at // 60 % 60:02}:{at % 60:02}Z",
        "level": "error" if failed else "info",
        "text": text,
    }


def read(_name, arguments):
    first = arguments["offset"]
    held = {"entries": [entry(at) for at in range(first, first + PAGE)]}
    part = types.TextContent(type="text", text=json.dumps(held))
    return types.CallToolResult(content=[part], structured_content=held)


def servers() -> tuple[FakeServer, FakeServer]:
    logs = [tool("read", "Reads 100 entries.", hints=READ, input_schema=OFFSET)]
    issues = [tool("create", "Creates an issue.", hints=WRITE, input_schema=TITLE)]
    return FakeServer("logs", logs, answer=read), FakeServer("issues", issues)


class Recorded:
    """A client whose messages are counted as a model writes and reads them."""

    def __init__(self, client: Client) -> None:
        self.client, self.tokens, self.messages = client, 0, 0

    async def call(self, name: str, arguments: dict) -> str:
        result = await self.client.call_tool(name, arguments)
        text = "\n".join(part.text for part in result.content)
        count = bundled_counter().count
        self.tokens += count(json.dumps({"name": name, "arguments": arguments})) + count(text)
        self.messages += 2
        return text


async def call_by_call(client: Recorded) -> None:
    await client.call("get_tool_details", {"names": ["logs/read", "issues/create"]})
    errors = set()
    for offset in range(0, ENTRIES, PAGE):
        given = {"name": "logs/read", "arguments": {"offset": offset}}
        page = json.loads(await client.call("call_tool", given))
        errors |= {one["text"] for one in page["entries"] if one["level"] == "error"}
    for title in sorted(errors):
        await client.call("call_tool", {"name": "issues/create", "arguments": {"title": title}})


async def as_a_script(client: Recorded) -> None:
    asked = {"names": ["logs/read", "issues/create"], "detail": "signature"}
    await client.call("get_tool_details", asked)
    held = json.loads(await client.call("run_code", {"code": SCRIPT}))
    assert held["error"] is None, held


async def measured(folder) -> dict[str, tuple[int, int]]:
    """Way to messages and tokens."""
    found = {}
    for way in (call_by_call, as_a_script):
        logs, issues = servers()
        async with fleet_of(folder / way.__name__, logs, issues) as fleet:
            made = Gateway(fleet, Profile(pass_through=0.0, code=True, result_tokens=100_000))
            async with Client(made.server) as client:
                recorded = Recorded(client)
                await way(recorded)
            await made.aclose()
        assert len(logs.calls) == ENTRIES // PAGE
        assert [one["title"] for _, one in issues.calls] == [
            f"no space on disk {at}" for at in range(5)
        ]
        found[way.__name__] = recorded.messages, recorded.tokens
    return found


@pytest.mark.anyio
async def test_a_script_takes_a_fiftieth_of_the_tokens(tmp_path):
    found = await measured(tmp_path)
    assert found["call_by_call"][1] >= 50 * found["as_a_script"][1]


if __name__ == "__main__":
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as name:
        sys.stdout.write(f"{anyio.run(measured, Path(name))}\n")
