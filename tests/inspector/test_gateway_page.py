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
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ..gateway.attached import Machine, wait_for
from ..gateway.warm_python import warm
from .pages import Page, inspecting

SERVERS = Path(__file__).parents[1] / "gateway"
CLIENT, OPERATOR = "token-of-the-client", "token-of-the-operator"


@contextmanager
def _gateway(folder: Path, **own: Any) -> Iterator[Page]:
    """`shortlist serve --http` over a server with two notes; the page has the operator's token."""
    entry = {"command": sys.executable, "args": warm(str(SERVERS / "poisoned_server.py"))}
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
    with _gateway(tmp_path, operator_token=OPERATOR, profiles=profiles) as page:
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
        found = page.answer("search", query="read a note", profile="reader")
        assert found["tiers"][0]["hits"][0]["id"] == "notes/read_note"
        # The first answer is the one that a model gets: with the decision, and as its text.
        [part] = found["gateway"]["parts"]
        assert part["hits"][0]["id"] == "notes/read_note"
        assert found["gateway"]["text"].startswith("1. notes/read_note(")
        nothing = page.answer("search", query="book a flight to Oslo", profile="reader")["gateway"]
        assert (nothing["abstained"], nothing["parts"][0]["hits"]) == (True, [])
        assert nothing["text"].startswith("No tool fits")
        [pins] = (tmp_path / "s" / "shortlist" / "pins").glob("mcp-*.json/*.json")
        assert json.loads(pins.read_text())["tools"]["notes/read_note"]["approved"] is True


def _server(page: Page, name: str = "notes") -> dict[str, Any]:
    [server] = [row for row in page.answer("servers")["servers"] if row["name"] == name]
    return server


def _act(page: Page, action: str, name: str = "notes") -> dict[str, Any]:
    response = page.post("server", {"name": name, "action": action})
    assert response.status_code == 200, response.text
    [server] = [row for row in response.json()["servers"] if row["name"] == name]
    return server


def test_the_operator_stops_starts_and_disables_a_server(tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    with _gateway(tmp_path, operator_token=OPERATOR) as page:
        wait_for(lambda: _server(page)["state"] == "started")
        assert _server(page)["actions"] == ["stop", "disable"]
        assert _act(page, "stop")["state"] == "known"
        assert _act(page, "start")["state"] == "started"
        before = config.read_bytes()
        off = _act(page, "disable")
        assert (off["state"], off["actions"]) == ("disabled", ["enable"])
        wait_for(lambda: _server(page)["tools"] == 0)
        assert json.loads(config.read_text())["mcpServers"]["notes"]["disabled"] is True
        on = _act(page, "enable")
        assert (on["state"] != "disabled", json.loads(config.read_text())) == (
            True,
            json.loads(before),
        )
        values = json.loads(before)
        values["mcpServers"] |= {"gone": {"command": "no-such-program"}, "bad": {"args": 1}}
        config.write_text(json.dumps(values))
        failed = wait_for(lambda: [row for row in _rows(page) if row["state"] == "failed"])[0]
        assert failed["problems"] == [
            "no program 'no-such-program'; install it, or give its full path as `command`"
        ]
        assert failed["repair"] == "Correct its entry, then start it."
        assert (failed["name"], failed["actions"]) == ("gone", ["start", "disable"])
        assert _act(page, "start", "gone")["state"] == "failed"
        unusable = _server(page, "bad")
        assert (unusable["state"], unusable["actions"]) == ("not usable", ["disable"])
        assert unusable["problems"][0].startswith("args: must be a list")
        config.write_text("{")
        assert "not JSON" in page.answer("overview")["config_problem"]
        for body in ({"name": "none", "action": "start"}, {"name": "notes", "action": "eat"}):
            assert page.post("server", body).status_code == 400
        assert page.post("server", {"name": "notes", "action": "stop"}, {"origin": None}).is_error


def _rows(page: Page) -> list[dict[str, Any]]:
    return page.answer("servers")["servers"]


@pytest.mark.skipif(sys.platform == "win32", reason="no gateway runs in the background there")
def test_a_page_beside_a_background_gateway_shows_its_states_and_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(machine.runtime))
    try:
        machine.write(one=machine.rough("one"), gone={"command": "no-such-program"})
        with inspecting(machine.home, "--config", str(machine.config)) as page:
            answer = page.answer("servers")
            assert {row["state"] for row in answer["servers"]} == {"configured"}
            assert [row["actions"] for row in answer["servers"]] == [["disable"]] * 2
            assert "cannot be started or stopped here" in answer["note"]
            refused = page.post("server", {"name": "one", "action": "start"})
            assert (refused.status_code, "no gateway of" in refused.text) == (400, True)
            client = machine.client()
            client.initialize()
            client.call("one/echo", word="x")
            wait_for(lambda: _server(page, "gone")["state"] == "failed")
            assert _server(page, "one")["state"] == "started"
            assert page.answer("overview")["note"] == ""
            assert _act(page, "stop", "one")["state"] == "known"
            assert _act(page, "start", "one")["state"] == "started"
            assert machine.starts("one") == 2
            assert _act(page, "disable", "one")["state"] == "disabled"
    finally:
        machine.close()


def test_without_the_operators_token_there_is_no_page(tmp_path: Path) -> None:
    with _gateway(tmp_path) as page:
        assert httpx2.get(page.base).status_code == 404
        assert page.get("api/start").status_code == 404
