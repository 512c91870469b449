"""The page of a running gateway: who may open it, and what it shows while clients work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .pages import Page

SERVERS = Path(__file__).parents[1] / "gateway"
CLIENT, OPERATOR = "token-of-the-client", "token-of-the-operator"


@contextmanager
def _gateway(folder: Path, **own: Any) -> Iterator[Page]:
    """`shortlist serve --http` over a server with two notes; the page has the operator's token."""
    entry = {"command": sys.executable, "args": [str(SERVERS / "poisoned_server.py")]}
    config = folder / "mcp.json"
    settings = {"engine": {"tiers": ["lexical"]}, **own}
    config.write_text(json.dumps({"mcpServers": {"notes": entry}, "shortlist": settings}))
    program = "from shortlist.cli import main; main()"
    home = {"XDG_CACHE_HOME": str(folder / "c"), "XDG_STATE_HOME": str(folder / "s")}
    with subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--config", config, "--http", "127.0.0.1:0"],
        env={**os.environ, **home},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1].removesuffix("/mcp")
            yield Page(f"{address}/inspect/#{OPERATOR}")
        finally:
            process.kill()


async def _use(address: str) -> None:
    """A client's search, without a call."""
    headers = {"authorization": f"Bearer {CLIENT}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        await client.call_tool("search_tools", {"query": "add a note"})


def test_the_operator_sees_clients_work_and_approves(tmp_path: Path) -> None:
    profiles = {"reader": {"token": CLIENT, "scopes": ["notes:read"]}}
    events = {"event_content": True}
    with _gateway(tmp_path, operator_token=OPERATOR, profiles=profiles, **events) as page:
        assert httpx2.get(page.base).status_code == 200
        assert httpx2.get(f"{page.origin}/mcp").status_code == 401
        for token in (CLIENT, "wrong"):
            headers = {"authorization": f"Bearer {token}"}
            assert page.get("api/start", headers).status_code == 401
        assert page.get("api/start", {"host": "evil.example"}).status_code == 421
        assert page.answer("start")["profiles"] == {"reader": ["notes:read"]}
        end = time.monotonic() + 60
        while not page.answer("trust")["quarantined"] and time.monotonic() < end:
            time.sleep(0.1)
        [server] = page.answer("servers")["servers"]
        assert (server["state"], server["tools"], server["quarantined"]) == ("started", 2, 1)
        sent = json.loads(page.answer("tool", id="notes/read_note")["server_sent"])
        assert "inputSchema" in sent
        anyio.run(_use, f"{page.origin}/mcp")
        titles = [line["title"] for line in page.answer("events")["lines"]]
        assert "searched “add a note”" in titles
        assert [miss["query"] for miss in page.answer("conversations")["missed"]] == ["add a note"]
        review = page.answer("review", id="notes/read_note")
        approved = {"tool": "notes/read_note", "fingerprint": review["fingerprint"]}
        approved["pinned"] = review["pinned"]
        assert page.post("approve", approved).json()["quarantined"] == []
        found = page.answer("search", query="read a note", profile="reader")["tiers"][0]
        assert found["hits"][0]["id"] == "notes/read_note"
        [pins] = (tmp_path / "s" / "shortlist" / "pins").glob("mcp-*.json/*.json")
        assert json.loads(pins.read_text())["tools"]["notes/read_note"]["approved"] is True


def test_without_the_operators_token_there_is_no_page(tmp_path: Path) -> None:
    with _gateway(tmp_path) as page:
        assert httpx2.get(page.base).status_code == 404
        assert page.get("api/start").status_code == 404
