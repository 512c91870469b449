"""Clients that send half a request and wait: the gateway still serves the others."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import httpx2
import psutil
import pytest

from shortlist.gateway.http_connections import ClientConnections
from shortlist.tests.gateway.fleets import HERE
from shortlist.tests.gateway.test_serve import _HELLO, serving

DESCRIPTORS, ATTACKERS = 256, 1_100
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ACCEPTED = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@contextmanager
def gateway(tmp_path, *, request_s=30.0, own=None, **servers):
    """The address of a gateway that may have few descriptors, its process, and its stderr."""
    command, environment = serving(tmp_path, "--http", "127.0.0.1:0", own=own, **servers)
    limits = (DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    command[2] = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, {limits}); "
        "from shortlist.gateway import http_connections; "
        f"http_connections.REQUEST_TIMEOUT_S = {request_s}; {command[2]}"
    )
    log = tmp_path / "stderr"
    with log.open("wb") as stderr, subprocess.Popen(command, env=environment, stderr=stderr) as run:
        try:
            while b"/mcp" not in log.read_bytes():
                assert run.poll() is None, log.read_text()
                time.sleep(0.05)
            yield int(log.read_text().split("/mcp")[0].rsplit(":", 1)[1]), run, log
        finally:
            run.kill()


def opened(stack, port):
    attacker = socket.create_connection(("127.0.0.1", port), timeout=30)
    return stack.enter_context(attacker)


def call(client, url, name):
    """The answer to a call of a tool by a new client."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
    session = client.post(url, json=hello).headers["mcp-session-id"]
    params = {"name": "call_tool", "arguments": {"name": name, "arguments": {}}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    answer = client.post(url, json=message, headers={"mcp-session-id": session})
    text = answer.text.split("data: ")[-1]
    return json.loads(text)["result"]


def rough_entry(tmp_path, name):
    (tmp_path / name).mkdir()
    args = [str(HERE / "rough_server.py"), "plain", str(tmp_path / name)]
    return {"command": sys.executable, "args": args}


@contextmanager
def attacked(port, sent):
    """A block in which two threads hold many connections open, again and again."""
    has_ended = threading.Event()

    def attack():
        while not has_ended.is_set():
            with ExitStack() as stack, suppress(OSError):
                for _ in range(ATTACKERS):
                    opened(stack, port).sendall(sent)
                    if has_ended.is_set():
                        break

    attackers = [threading.Thread(target=attack) for _ in range(2)]
    for attacker in attackers:
        attacker.start()
    try:
        yield
    finally:
        has_ended.set()
        for attacker in attackers:
            attacker.join()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD, id="half"),
        pytest.param(b"", id="nothing", marks=pytest.mark.long),
        pytest.param(b"\0 no HTTP\r\n\r\n", id="bad", marks=pytest.mark.long),
    ],
)
def test_clients_are_served_while_others_send_half_requests(tmp_path, sent):
    entry = rough_entry(tmp_path, "one")
    with gateway(tmp_path, one=entry) as (port, process, log):
        outcomes, most_open = [], 0
        with attacked(port, sent):
            end = time.monotonic() + 60
            # Ten may be served before the attackers have reached the limit.
            while time.monotonic() < end and (
                outcomes.count("served") < 10
                or "connections of clients over HTTP" not in log.read_text()
            ):
                try:
                    with httpx2.Client(headers=ACCEPTED, timeout=20) as client:
                        is_error = call(client, f"http://127.0.0.1:{port}/mcp", "one/echo")[
                            "isError"
                        ]
                    # The server starts during the attack, and needs descriptors of its own.
                    outcomes.append("starting" if is_error else "served")
                except httpx2.TransportError:
                    outcomes.append("lost")
                most_open = max(most_open, psutil.Process(process.pid).num_fds())
        assert outcomes.count("served") >= 10
        assert most_open < DESCRIPTORS
        text = log.read_text()
        assert "Traceback" not in text
        assert len(text.splitlines()) < 10
        assert "connections of clients over HTTP" in text


@pytest.mark.parametrize(
    ("rest", "own"),
    [
        (b"X", None),
        (b"Content-Length: 1000\r\n\r\n{", {"profiles": {"default": {"token": "token-4711"}}}),
    ],
    ids=["head", "body, with a token"],
)
def test_a_slow_request_ends(tmp_path, rest, own):
    with gateway(tmp_path, request_s=2.0, own=own) as (port, _, log), ExitStack() as stack:
        attacker = opened(stack, port)
        attacker.sendall(HEAD + rest)
        start, is_open = time.monotonic(), True
        while is_open and time.monotonic() < start + 30:
            time.sleep(0.2)
            try:
                attacker.sendall(b"x")
            except OSError:
                is_open = False
        assert not is_open
        time.sleep(0.2)
        assert "Traceback" not in log.read_text()


def test_tracebacks_of_requests_have_a_bound():
    async def fail() -> list[bool]:
        connections = ClientConnections(10)
        error = (ValueError, ValueError("x"), None)
        row = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception", None, error)
        return [connections.filter(row) for _ in range(1_000)]

    assert sum(asyncio.run(fail())) == 5


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
def test_a_client_that_leaves_in_its_request_is_counted_and_no_traceback(tmp_path, version):
    head = HEAD + b"Accept: application/json, text/event-stream\r\nMcp-Method: tools/list\r\n"
    head += f"MCP-Protocol-Version: {version}\r\nContent-Length: 100\r\n\r\n".encode()
    with gateway(tmp_path) as (port, _, log):
        for _ in range(20):
            with ExitStack() as stack:
                opened(stack, port).sendall(head + b'{"a":')
                time.sleep(0.05)
        time.sleep(0.5)
        assert "Traceback" not in log.read_text()
        assert len(log.read_text().splitlines()) <= 2


def test_a_long_answer_and_a_slow_client_are_no_slow_request(tmp_path):
    entry = rough_entry(tmp_path, "one")
    with gateway(tmp_path, request_s=1.0, one=entry) as (port, _, _):
        url = f"http://127.0.0.1:{port}/mcp"
        with httpx2.Client(headers=ACCEPTED, timeout=60) as client:
            for _ in range(200):
                if not call(client, url, "one/echo").get("isError"):
                    break
                time.sleep(0.1)
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
            session = client.post(url, json=hello).headers["mcp-session-id"]
            arguments = {"name": "one/sleep", "arguments": {"steps": 1, "seconds": 2}}
            params = {"name": "call_tool", "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            answer = client.post(url, json=message, headers={"mcp-session-id": session})
            assert "slept" in answer.text
            time.sleep(1.5)
            assert client.get(url.replace("/mcp", "/healthz")).json()["status"] == "ok"
