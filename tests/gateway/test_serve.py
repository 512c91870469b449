"""`shortlist serve` as a user starts it: a process, a configuration file, a real client."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

SERVER = str(Path(__file__).parent / "everything_server.py")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_a_client_starts_it_and_calls_through(tmp_path):
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [SERVER, "sums"]}
    own = {"pass_through": 0, "engine": {"tiers": ["lexical"]}}
    config.write_text(json.dumps({"mcpServers": {"sums": entry}, "shortlist": own}))
    home = {"XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from shortlist.cli import main; main()", "serve", "--config", str(config)],
        env={**os.environ, **home},
    )
    async with Client(stdio_client(parameters)) as client:
        with anyio.fail_after(60):
            found = {"tools": []}
            while not found["tools"]:
                answer = await client.call_tool("search_tools", {"query": "add two numbers"})
                found = answer.structured_content
                await anyio.sleep(0.1)
        assert found["tools"][0]["name"] == "sums/add_numbers"
        given = {"name": "sums/add_numbers", "arguments": {"first": 20, "second": 22}}
        assert (await client.call_tool("call_tool", given)).structured_content == {"result": 42}
    assert list((tmp_path / "c" / "shortlist" / "manifests").glob("*.json"))
    (pins,) = (tmp_path / "s" / "shortlist" / "pins").glob("mcp-*.json")
    assert "sums/add_numbers" in json.loads(pins.read_text())["tools"]
    assert (tmp_path / "s" / "shortlist" / "logs" / "sums.log").exists()
