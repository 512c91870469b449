"""`shortlist serve` as a user starts it: a process, a configuration file, a real client."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import anyio
import httpx2
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
    own = {"pass_through": 0, "engine": {"tiers": ["lexical"]}, "events": "events.jsonl"}
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
    assert (tmp_path / "s" / "shortlist" / "logs" / "sums.log").exists()
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [one["ok"] for one in rows if one["kind"] == "call"] == [True]


async def test_over_http_it_serves_metrics_to_who_has_their_token(tmp_path):
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [SERVER, "sums"]}
    own = {"engine": {"tiers": ["lexical"]}, "metrics_token": "${OF_METRICS}"}
    config.write_text(json.dumps({"mcpServers": {"sums": entry}, "shortlist": own}))
    command = [sys.executable, "-c", "from shortlist.cli import main; main()", "serve"]
    home = {"XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    async with await anyio.open_process(
        [*command, "--config", str(config), "--http", "127.0.0.1:0"],
        env={**os.environ, **home, "OF_METRICS": "token-4711"},
        stdout=None,
    ) as process:
        try:
            assert process.stderr is not None
            with anyio.fail_after(60):
                url = (await process.stderr.receive()).decode().split()[-1].removesuffix("/mcp")
                async with httpx2.AsyncClient() as http:
                    refused = await http.get(f"{url}/metrics")
                    token = {"Authorization": "Bearer token-4711"}
                    metrics = await http.get(f"{url}/metrics", headers=token)
        finally:
            process.kill()
    assert refused.status_code == 401
    assert "shortlist_servers{" in metrics.text
    assert "process_resident_memory_bytes" in metrics.text
