"""Clients that attack the background gateway over its socket: the calls of the others go on."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from .attached import Machine, greeting_line

pytestmark = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="only Linux limits another process"
)
DESCRIPTORS, HALF_OPEN = 256, 400
OBJECTS, CALLS, OPEN_REQUESTS = 10_000_000, 1_500, 1_000
CALL = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": '
PING = b'{"jsonrpc": "2.0", "id": 9, "method": "ping"}\n'
INITIALIZE = (
    b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": '
    b'"2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}}\n'
    b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
)


@pytest.fixture(scope="module")
def machine():
    machine = Machine()
    try:
        machine.write(one=machine.rough("one"), slow=machine.rough("slow"))
        good = machine.client()
        good.initialize()
        good.call("one/echo")
        resource.prlimit(machine.gateway().pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        yield machine
    finally:
        machine.close()


def connection(machine):
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(machine.gateway().log.with_suffix(".sock")))
    made.settimeout(60)
    return made


@contextmanager
def attacker(machine):
    """A connection that has named its profile, and its lines."""
    with connection(machine) as made, made.makefile("rb") as lines:
        made.sendall(greeting_line(profile="default"))
        assert json.loads(lines.readline()) == {"problems": []}
        yield made, lines


def most_memory(machine):
    status = Path(f"/proc/{machine.gateway().pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1_024


@contextmanager
def calling(machine):
    """The seconds of the calls of another client in the block."""
    good, has_ended, seconds = machine.clients[0], threading.Event(), []

    def call():
        while not has_ended.is_set():
            start = time.monotonic()
            good.call("one/echo")
            seconds.append(time.monotonic() - start)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        yield seconds
    finally:
        has_ended.set()
        caller.join()


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(CALL + b"[" + b"{}," * OBJECTS + b"0]}}\n", id="values"),
        pytest.param(CALL + b"[" * 3 * OBJECTS + b"\n", id="levels"),
        pytest.param(CALL + b'"' + b"\xff" * 3 * OBJECTS + b'"}}\n', id="no UTF-8"),
    ],
)
def test_a_large_message_delays_no_other_client(machine, line):
    before = most_memory(machine)
    with calling(machine) as seconds, attacker(machine) as (made, lines):
        made.sendall(line + PING)
        assert json.loads(lines.readline())["id"] == 9
    assert max(seconds) < 1.0
    assert most_memory(machine) - before < 300_000_000


def test_a_client_is_told_that_its_message_has_too_many_values(machine):
    client = machine.client()
    client.initialize()
    client.process.stdin.write(CALL + b"[" + b"0," * (OBJECTS // 9) + b"0]}}\n")
    client.process.stdin.flush()
    assert "more than 300,000 values" in client.message()["error"]["message"]


@pytest.mark.no_cover
def test_a_client_has_few_open_requests(machine):
    with attacker(machine) as (made, lines):
        made.sendall(INITIALIZE)
        assert json.loads(lines.readline())["id"] == 0
        # None of these calls is answered while the client is there.
        arguments = {"name": "slow/sleep", "arguments": {"steps": 1, "seconds": 600}}
        call = {"method": "tools/call", "params": {"name": "call_tool", "arguments": arguments}}
        calls = [json.dumps({"jsonrpc": "2.0", "id": i, **call}) for i in range(1, CALLS + 1)]
        sender = threading.Thread(target=made.sendall, args=("\n".join([*calls, ""]).encode(),))
        with calling(machine) as seconds:
            sender.start()
            time.sleep(0.5)
        assert max(seconds) < 1.0
        answers = [json.loads(lines.readline()) for _ in range(CALLS - OPEN_REQUESTS)]
        sender.join()
    assert {answer["error"]["message"] for answer in answers} == {
        "more than 1,000 requests wait for an answer; send it again later"
    }


def test_clients_are_served_while_others_open_connections_and_wait(machine):
    gateway = machine.gateway()
    with ExitStack() as stack, calling(machine):
        for _ in range(HALF_OPEN):
            stack.enter_context(connection(machine)).sendall(b"{")
        with attacker(machine) as (made, lines):
            made.sendall(PING)
            assert json.loads(lines.readline())["id"] == 9
    assert machine.gateway() == gateway
    assert "Traceback" not in gateway.log.read_text()
