"""`shortlist serve` as a user starts it: a process, a configuration file, a real client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from .warm_python import warm

SERVER = str(Path(__file__).parent / "everything_server.py")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_a_client_starts_it_and_calls_through(tmp_path):
    entry = {"command": sys.executable, "args": warm(SERVER, "sums")}
    command, environment = serving(
        tmp_path, own={"engine": {"tiers": ["lexical"]}, "events": "events.jsonl"}, sums=entry
    )
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment)
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
    (pins,) = (tmp_path / "s" / "shortlist" / "pins").glob("mcp-*.json/*.json")
    assert "sums/add_numbers" in json.loads(pins.read_text())["tools"]
    assert (tmp_path / "s" / "shortlist" / "logs" / "sums.log").exists()
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [one["ok"] for one in rows if one["kind"] == "call"] == [True]
    assert modes(tmp_path / "events.jsonl") == {0o600}
    assert modes(tmp_path / "s") == modes(tmp_path / "c") == {0o600, 0o700}


@pytest.mark.anyio
async def test_the_first_search_is_answered_before_the_encoder_is_loaded(tmp_path):
    entry = {"command": sys.executable, "args": warm(SERVER, "sums")}
    command, environment = serving(tmp_path, sums=entry)
    without_encoder = [*command]
    without_encoder[2] = (
        "from shortlist.indexing.background import BackgroundBuild; "
        f"BackgroundBuild.start = lambda self: None; {command[2]}"
    )
    index = tmp_path / "c" / "shortlist" / "manifests" / "index"
    for program in (command, without_encoder):
        parameters = StdioServerParameters(command=program[0], args=program[1:], env=environment)
        async with Client(stdio_client(parameters)) as client:
            with anyio.fail_after(180):
                found = {"tools": []}
                request = {"query": "add two numbers", "explain": True}
                while not found["tools"]:
                    answer = await client.call_tool("search_tools", request)
                    found = answer.structured_content
                assert found["tools"][0]["name"] == "sums/add_numbers"
                if program is without_encoder:
                    assert (found["tier"], found["pending"] > 0) == ("fast", True)
                    assert found["tier_reason"].startswith("hybrid -> fast: encoder: has ")
                    continue
                while found["tier"] != "hybrid" or found["pending"]:
                    await anyio.sleep(0.05)
                    answer = await client.call_tool("search_tools", request)
                    found = answer.structured_content
                while not list(index.glob("*/CURRENT")):
                    await anyio.sleep(0.1)


@pytest.mark.anyio
async def test_over_http_it_serves_metrics_to_who_has_their_token(tmp_path):
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": warm(SERVER, "sums")}
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


@pytest.mark.parametrize(("name", "over_http"), [("SIGTERM", False), ("SIGHUP", True)])
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_it_stops_its_servers_when_it_is_asked_to_stop(tmp_path, name, over_http):
    with started(tmp_path, over_http=over_http) as (gateway, server):
        gateway.send_signal(getattr(signal, name))
        assert gateway.wait(20) == 0
        assert not _runs(server)
    running = tmp_path / "s" / "shortlist" / "running"
    assert list(running.iterdir()) == []
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_under_nohup_the_end_of_a_terminal_does_not_stop_it(tmp_path):
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with started(tmp_path, over_http=True) as (gateway, server):
            gateway.send_signal(signal.SIGHUP)
            with pytest.raises(subprocess.TimeoutExpired):
                gateway.wait(1)
            assert _runs(server)
            gateway.terminate()
            gateway.wait(20)
    finally:
        signal.signal(signal.SIGHUP, ignored)


def test_what_a_killed_gateway_left_is_ended_by_the_next(tmp_path):
    with started(tmp_path) as (gateway, server):
        gateway.kill()
        gateway.wait(20)
        assert _runs(server)
        # The manifest is known now, so that the next one starts no server of its own.
        with started(tmp_path) as (_, same):
            assert same == server
            _wait(lambda: not _runs(server))


def test_tools_are_listed_soon_after_the_start_and_no_server_starts(tmp_path):
    """Ten servers that ran before. The limit is of processor time: tests share machines."""
    names = [f"server{number}" for number in range(10)]
    servers = {}
    for name in names:
        (tmp_path / name).mkdir()
        args = [str(Path(SERVER).parent / "rough_server.py"), "plain", str(tmp_path / name)]
        servers[name] = {"command": sys.executable, "args": args}
    command, environment = serving(tmp_path, **servers)
    pipe = subprocess.PIPE
    manifests = tmp_path / "c" / "shortlist" / "manifests"
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as first:
        _wait(lambda: len(list(manifests.glob("*.json"))) == 10)
        _wait(lambda: list(manifests.glob("index/*/CURRENT")))
        first.stdin.close()
        first.wait(30)
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as second:
        _ask(second, 1, "initialize", **_HELLO)
        listed = _ask(second, 2, "tools/list")
        times = psutil.Process(second.pid).cpu_times()
        second.stdin.close()
        second.wait(30)
    assert [tool["name"] for tool in listed["tools"]][:2] == ["search_tools", "get_tool_details"]
    assert "\nserver0: die, big" in listed["tools"][0]["description"]
    assert all((tmp_path / name / "starts").read_text() == "x" for name in names)
    sdk = subprocess.Popen([sys.executable, "-c", "import mcp.types"])
    _, _, used = os.wait4(sdk.pid, 0)
    sdk.returncode = 0
    # On a quiet machine of two cores: 1.3 to 1.5 seconds by the clock, 0.7 of it for the SDK alone.
    limit = max(1.5, 3 * (used.ru_utime + used.ru_stime))
    assert times.user + times.system < limit


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def _ask(gateway, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    gateway.stdin.write(json.dumps(message).encode() + b"\n")
    gateway.stdin.flush()
    return json.loads(gateway.stdout.readline())["result"]


def _wait(true):
    for _ in range(1_200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it takes too long")


def serving(tmp_path, *more, own=None, **servers):
    """Command and environment of a gateway over these servers, with settings of its own."""
    config = tmp_path / "mcp.json"
    settings = {"pass_through": 0, **(own or {})}
    config.write_text(json.dumps({"mcpServers": servers, "shortlist": settings}))
    home = {"XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    program = "from shortlist.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--alone", "--config", str(config), *more]
    return command, {**os.environ, **home}


@contextmanager
def started(tmp_path, *, over_http=False):
    """A gateway with one server, which stays when its input ends, and the server's process id."""
    notes = tmp_path / "notes"
    notes.mkdir(exist_ok=True)
    args = [str(Path(SERVER).parent / "rough_server.py"), "stays", str(notes)]
    more = ("--http", "127.0.0.1:0") if over_http else ()
    entry = {"command": sys.executable, "args": args}
    own = {"engine": {"tiers": ["lexical"]}}
    command, environment = serving(tmp_path, *more, own=own, one=entry)
    pipe = subprocess.PIPE
    manifests = tmp_path / "c" / "shortlist" / "manifests"
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as gateway:
        try:
            _wait(lambda: list(manifests.glob("*.json")) and (notes / "pid").exists())
            yield gateway, int((notes / "pid").read_text())
        finally:
            gateway.kill()


def modes(path):
    """The permissions of a file, or of all that lies in a folder."""
    paths = path.rglob("*") if path.is_dir() else [path]
    return {one.stat().st_mode & 0o777 for one in paths}


def _runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
