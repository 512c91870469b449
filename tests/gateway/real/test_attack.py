"""Every family of attack, at once and one by one, before gateways of two profiles.

Run by `make test-long`.

Hostile servers, hostile clients and steady callers run at the same time against two processes of
`shortlist serve`: one over HTTP with two profiles, each with its own token, and one over stdio.
Each call carries who asks and what, and each answer is checked for it. It listens on the loopback
only.

To find a family that fails: `SHORTLIST_ATTACK=questions,lists pytest -m long -k short`, with names
of `_FAMILIES`. Steady callers run in any case.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import anyio
import httpx2
import mcp.types as types
import pytest
from anyio.abc import ByteReceiveStream
from anyio.streams.text import TextReceiveStream
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from shortlist.gateway.attach.running_gateway import greeting_line
from shortlist.tests.gateway.attached import Machine
from shortlist.tests.gateway.openapi_service import SECRET

from .gateway_process import Served, Setup, over_http
from .processes import descendants, open_files, resident

pytestmark = pytest.mark.long

_TESTS = Path(__file__).parents[1]
_API, _API_DOCUMENT = _TESTS / "openapi_service.py", _TESTS / "billing.yaml"
_LOAD, _ATTACK = (Path(__file__).with_name(f"{name}_server.py") for name in ("load", "attack"))
_CALLER = Path(__file__).with_name("calm_caller.py")
#: Seconds of a run: long, while you work on one family, and of each family alone.
_LONG_S, _SHORT_S, _ALONE_S = 600.0, 25.0, 13.0
#: Seconds that any reply may take while all attacks run, and that servers have to recover at the
#: end.
_REPLY_S, _RECOVERY_S = 90.0, 90.0
#: Milliseconds within which 99 of 100 calls of the calm server are answered.
_SLOW_MS = 20_000.0
#: Milliseconds that one family may delay a call of another client, and bytes that it may add. A
#: family beyond it is tried so often, because the machine does other work too.
_MAX_DELAY_MS, _MAX_ADDED, _TRIES = 300.0, 300_000_000, 3
#: Steady callers of each profile.
_CALLERS = 6
#: Characters of any answer, in JSON. Long results are read in parts of 20,000 characters, of which
#: JSON may write each as several.
_ANSWER_CHARS = 300_000
#: Characters of long results that the gateway stores for an hour, and of one of those that fill
#: its store before a long run: what it may keep is no growth.
_STORED_CHARS, _STORED_RESULT_CHARS = 100_000_000, 10_000_000
#: Bytes that the gateway's memory may grow from the second to the last quarter of a long run, by
#: the medians of each, and may have at any time. Large results in work are some 20 MB up and down.
_GROWTH, _MAX_MEMORY = 40_000_000, 800_000_000
#: Descriptors that may be open at the end beyond those at the start: those of the eight processes
#: for scripts, which stay, and a few. Servers that nobody calls are off at both times.
_MORE_FILES = 40
#: Connections without a request that are opened at once, with the usual limit of descriptors.
_HALF_SENT, _DESCRIPTORS = 1_100, 1_024

#: Profile to the servers that it allows, besides those in `_SHARED`.
_OWN_SERVERS = {"left": "left_own", "right": "right_own"}
_SHARED = (
    *("calm", "rough", "talking", "poisoned", "grows", "turns"),
    *("wild", "floods", "halves", "long", "names", "zip", "api"),
)
#: The server that neither attacks nor is attacked: its calls always succeed.
_CALM = "calm"
#: The server that reports progress of every running call. A call may take 20 times its limit then.
_REPORTING = "floods"
#: A server that no profile allows.
_HIDDEN = "vault"
#: The names of the profile of the gateway over stdio, and of its servers.
_STDIO_PROFILE, _STDIO_SERVERS = "desk", ("calm", "rough", "wild", "floods", "halves")
#: Beginnings of the texts of calls; each profile has its own, which no other may ever see.
_MARK = re.compile(r"<(left|right|desk)-\d+-\d+>")


@dataclass
class Run:
    """One attack run: its gateways, its end, and what was seen.

    Attributes:
        served: the gateway over HTTP.
        command: starts the gateway over stdio.
        folder: files of the servers.
        seconds: how long the attack lasts.
        right: family to its answers that are right, with refusals that are.
        failed: family to reasons why a server gave no answer.
        wrong: family to what must not be.
        rounds: family to its number of finished rounds.
        waits_ms: time of each call of the server that attacks nobody.
        memory: bytes of the gateway over HTTP, every second.
        refusing_until: until when the gateway may refuse new connections.
    """

    served: Served
    command: StdioServerParameters
    folder: Path
    seconds: float
    end: float = 0.0
    right: Counter[str] = field(default_factory=Counter)
    failed: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    rounds: Counter[str] = field(default_factory=Counter)
    waits_ms: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    refusing_until: float = 0.0
    guests: int = 0

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.end

    def check(self, family: str, is_right: bool, problem: str) -> None:
        """Count an answer, and keep the first problems of a family."""
        if is_right:
            self.right[family] += 1
        elif len(self.wrong[family]) < 20:
            self.wrong[family].append(problem[:400])


class Guest:
    """A client whose calls carry its name and a number, so that a mixed-up answer is seen.

    Args:
        run: gets what the client sees.
        family: the attack that it takes part in.
        profile: its profile.
    """

    def __init__(self, run: Run, family: str, profile: str) -> None:
        self.run, self.family, self.profile = run, family, profile
        run.guests += 1
        self.number = run.guests
        self.calls = 0
        self.client: Client | None = None
        self.chance = random.Random(self.number)

    def text(self) -> str:
        """The text of the next call."""
        self.calls += 1
        return f"<{self.profile}-{self.number}-{self.calls}>"

    def check(self, is_right: bool, problem: str) -> None:
        self.run.check(self.family, is_right, f"{self.profile}-{self.number}: {problem}")

    def see(self, text: str, source: str) -> None:
        """Check a text from the gateway: nothing of another client, and not too much."""
        foreign = [
            mark[0] for mark in _MARK.finditer(text) if not mark[0].startswith(self._beginning)
        ]
        if foreign:
            self.check(False, f"{source} has a text of another client: {foreign[:3]}")
        if len(text) > _ANSWER_CHARS:
            self.check(False, f"{source} has {len(text):,} characters")

    @property
    def _beginning(self) -> str:
        return f"<{self.profile}-{self.number}-"

    async def ask(self, tool: str, /, **arguments: Any) -> tuple[bool, str]:
        """Use one of the gateway's own tools. Returns whether it failed, and the answer's text."""
        assert self.client is not None
        with anyio.move_on_after(_REPLY_S) as limit:
            result = await self.client.call_tool(tool, arguments)
        if limit.cancelled_caught:
            if str(arguments.get("name")).startswith(f"{_REPORTING}/"):
                return True, f"server {_REPORTING!r} only reports progress: no answer yet"
            self.check(False, f"{tool} {str(arguments)[:100]}: no answer within {_REPLY_S:g} s")
            return True, "no answer"
        self.see(result.model_dump_json(), f"{tool} {str(arguments)[:100]}")
        texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
        return bool(result.is_error), "\n".join(texts)

    async def call(self, name: str, /, **arguments: Any) -> tuple[bool, str]:
        """Call a server's tool through the gateway."""
        return await self.ask("call_tool", name=name, arguments=arguments)

    async def expect(self, name: str, text: str = "", answer: str | None = None) -> None:
        """A call that succeeds with the answer, which is `server:text` by default, or fails because
        its server is gone."""
        text = text or self.text()
        server = name.partition("/")[0]
        failed, said = await self.call(name, text=text)
        self.judge(name, failed, said, f"{server}:{text}" if answer is None else answer)

    def judge(self, name: str, failed: bool, said: str, answer: str) -> None:
        """Count an answer: right if it begins as expected; failed if the server is gone."""
        server = name.partition("/")[0]
        if failed and server != _CALM and _is_of_dead_server(said, server):
            self.run.failed[self.family][_reason(said)] += 1
        else:
            self.check(not failed and said.startswith(answer), f"{name}: {said[:200]!r}")


def _is_of_dead_server(text: str, server: str) -> bool:
    """Whether an error says that the server gave no answer."""
    return f"server '{server}'" in text


def _reason(text: str) -> str:
    return re.sub(r"'\w+'|\d[\d.,]*", "N", text.split(": ")[0])[:80]


Family = Callable[[Run, Guest], Awaitable[None]]
_FAMILIES: dict[str, tuple[Family, tuple[str, ...]]] = {}


def family(*profiles: str) -> Callable[[Family], Family]:
    """A round of an attack, which a client of each of these profiles repeats until the end."""

    def register(attack: Family) -> Family:
        _FAMILIES[attack.__name__] = attack, profiles
        return attack

    return register


_ALL = (*_OWN_SERVERS, _STDIO_PROFILE)


@family(*("left", "right") * _CALLERS, *[_STDIO_PROFILE] * 2)
async def steady(run: Run, guest: Guest) -> None:
    """What users do meanwhile: searches and calls, short and long."""
    kind = guest.chance.random()
    own = _OWN_SERVERS.get(guest.profile, "calm")
    if kind < 0.1:
        _, said = await guest.ask("search_tools", query="say a text", k=20)
        others = {_HIDDEN, *_OWN_SERVERS.values()} - {own}
        guest.check(not any(f"{name}/" in said for name in others), f"search: {said[:300]}")
    elif kind < 0.2:
        text = guest.text()
        failed, said = await guest.call("calm/say_at_length", text=text)
        guest.judge("calm/say_at_length", failed, said, f"calm:{text} ")
        if not failed and (stored := re.search(r'"id": "(\w+)"', said)):
            _, rest = await guest.ask("read_result", id=stored[1])
            guest.check(f"calm:{text} " in rest, f"read_result: {rest[:200]}")
    elif kind < 0.4:
        await guest.expect(f"{own}/say")
    else:
        start = monotonic()
        await guest.expect("calm/say")
        run.waits_ms.append((monotonic() - start) * 1e3)
    await anyio.sleep(0.05)


@family(*_ALL)
async def dying(run: Run, guest: Guest) -> None:
    """A server ends in the middle of calls, and starts again."""
    text = guest.text()
    await guest.call("rough/die", times=10_000)
    failed, said = await guest.call("rough/echo", text=text)
    guest.judge("rough/echo", failed, said, json.dumps({"text": text}))
    await anyio.sleep(1)


@family("left")
async def killed(run: Run, guest: Guest) -> None:
    """Servers of one profile are killed from outside."""
    for pid, words in descendants(run.served.pid).items():
        if words[1:3] in ([str(_LOAD), name] for name in _OWN_SERVERS.values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    await guest.expect("left_own/say")
    await anyio.sleep(3)


@family("left")
async def changed(run: Run, guest: Guest) -> None:
    """A definition is another one after each stop; only the first one ever gets arguments."""
    await guest.expect("turns/say")
    with anyio.move_on_after(20):
        while (await _state_of(guest, "turns")) == "started":
            await anyio.sleep(0.5)
    text = guest.text()
    failed, said = await guest.call("turns/keep", text=text)
    if not failed:
        guest.check(said == f"turns:{text}", f"turns/keep: {said[:200]}")
    received = run.folder / "turns" / "received"
    lines = received.read_text().splitlines() if received.exists() else []
    stolen = [line for line in lines if not line.startswith("1 ")]
    guest.check(not stolen, f"a changed definition got arguments: {stolen[:3]}")


async def _state_of(guest: Guest, server: str) -> str:
    _, said = await guest.ask("list_servers")
    rows = json.loads(said)["servers"] if said.startswith("{") else []
    return next((row["state"] for row in rows if row["name"] == server), "")


@family("left", "right")
async def questions(run: Run, guest: Guest) -> None:
    """A call ends without an answer, and its server asks late; each answers only his own."""
    if guest.profile == "left":
        await guest.call("talking/ask_once_cancelled", who=guest.text())
        await anyio.sleep(0.5)
        return
    text = guest.text()
    failed, said = await guest.call("talking/ask_user", who=text)
    refused = failed and ("the gateway cannot ask" in said or _is_of_dead_server(said, "talking"))
    guest.check(refused or said == f"accept {text}", f"talking/ask_user {text}: {said[:200]}")
    await anyio.sleep(0.1)


@family(*_ALL)
async def noise(run: Run, guest: Guest) -> None:
    """Megabytes on stdout and stderr that are no messages."""
    await guest.expect("floods/noise")
    if guest.profile != "right":
        await guest.call("rough/noise")
        await guest.call("rough/flood", blocks=5)
    await anyio.sleep(2)


@family("left", _STDIO_PROFILE)
async def notifications(run: Run, guest: Guest) -> None:
    """Notifications by the thousand, and a list that changes."""
    await guest.expect("floods/notify")
    if guest.profile == "left":
        failed, said = await guest.call("grows/grow", name=guest.chance.choice("abc") * 3)
        guest.judge("grows/grow", failed, said, "grown")
    await anyio.sleep(2)


@family(*_ALL)
async def large(run: Run, guest: Guest) -> None:
    """Results and errors of megabytes: none reaches a client whole."""
    size = 3_000_000
    failed, said = await guest.call("rough/big", bytes=size)
    guest.judge("rough/big", failed, said, "yyyy")
    for name in ("links", "texts", "long_meta"):
        await guest.expect(f"wild/{name}")
    text = guest.text()
    failed, said = await guest.call("wild/long_error", text=text)
    guest.check(failed, f"wild/long_error is no error: {said[:100]}")
    await anyio.sleep(2)


@family(*_ALL)
async def halves(run: Run, guest: Guest) -> None:
    """Half of a surrogate pair, in results and in a list."""
    for name in ("wild/half_text", "wild/half_meta", "halves/say", "halves/halved"):
        await guest.expect(name)
    await anyio.sleep(0.5)


@family("left")
async def packed(run: Run, guest: Guest) -> None:
    """A little gzip that holds 400 MB."""
    failed, said = await guest.call("zip/bomb", text=guest.text())
    guest.check(failed and _is_of_dead_server(said, "zip"), f"zip/bomb: {said[:200]}")
    await guest.expect("zip/say")
    await anyio.sleep(5)


@family("right")
async def lists(run: Run, guest: Guest) -> None:
    """A list of 150 MB, read again and again."""
    await guest.expect("long/relist")
    await guest.expect("long/say")
    await anyio.sleep(10)


@family("left", "right", _STDIO_PROFILE)
async def abandoned(run: Run, guest: Guest) -> None:
    """Calls whose client leaves, whose server never answers."""
    assert guest.client is not None
    given = {"name": guest.chance.choice(("wild/hang", "rough/sleep"))}
    given["arguments"] = {"text": guest.text(), "steps": 20, "seconds": 0.1}
    with anyio.move_on_after(0.3):
        await guest.client.call_tool("call_tool", given)
    await guest.expect("wild/say")
    await anyio.sleep(0.5)


@family("left", "left", "left", "right")
async def scripts(run: Run, guest: Guest) -> None:
    """Scripts that sleep; the other profile's script runs meanwhile."""
    if guest.profile == "left":
        sleeping = {"code": "import asyncio\nawait asyncio.sleep(4)"}
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(lambda: guest.ask("run_code", **sleeping))
        guest.check(True, "")
        return
    text = guest.text()
    start = monotonic()
    failed, said = await guest.ask("run_code", code=f"await calm.say(text={text!r})")
    guest.check(not failed and f"calm:{text}" in said, f"run_code: {said[:300]}")
    guest.check(monotonic() - start < 30, f"run_code waited {monotonic() - start:.0f} s")
    await anyio.sleep(0.5)


#: Scripts whose values are small where they are made and huge as a copy, or as a key of a dict.
_HUGE_VALUES = (
    "a = [0]\nfor _ in range({times}):\n    a = [a, a]\na",
    "a = (0,)\nfor _ in range({times}):\n    a = (a, a)\n{{a: 1}}",
    "d = {{}}\nfor i in range(60_000):\n    d[i * (2 ** {times} - 1)] = 1\nd",
    "s = 'x' * 1_000_000\n[s] * 100_000  # {times}",
    "from typing import Any\na = [0]\nfor _ in range({times}):\n    a = [a, a]\n"
    "value: Any = a\nawait calm.say(text=value)",
)


@family("left", "right")
async def huge_values(run: Run, guest: Guest) -> None:
    """Values of scripts that would block the interpreter or fill the memory."""
    code = guest.chance.choice(_HUGE_VALUES).format(times=61)
    failed, said = await guest.ask("run_code", code=code)
    guest.check(failed, f"run_code {code!r}: {said[:200]}")
    await anyio.sleep(1)


@family("left", "right")
async def odd_answers(run: Run, guest: Guest) -> None:
    """An HTTP API with endless headers, damaged text, packed answers and own addresses."""
    name = guest.chance.choice(
        "semicolons halves broken_utf16 bomb bomb_twice odd_charset as_mallory".split()
    )
    failed, said = await guest.call(f"api/{name}")
    guest.check(failed == (name not in ("semicolons", "odd_charset")), f"api/{name}: {said[:200]}")
    _, said = await guest.call("api/delete_invoices", id="7")
    guest.check("/v1/echo/customers/7" in said, f"api/delete_invoices: {said[:200]}")
    guest.check(SECRET not in said, f"api/delete_invoices shows the credential: {said[:400]}")
    await anyio.sleep(1)


@family("right")
async def new_names(run: Run, guest: Guest) -> None:
    """Each list has 110 names that no list before had."""
    for _ in range(10):
        await guest.expect("names/relist")
    await guest.expect("names/say")
    await anyio.sleep(0.2)


@family("left")
async def odd_origins(run: Run, guest: Guest) -> None:
    """Hosts and origins that look like this machine, and that no parser reads, at the page too."""
    port = httpx2.URL(run.served.address).port
    page = run.served.address.replace("/mcp", "/inspect/")
    async with _http(guest.profile) as http:
        for name, value in (
            ("Origin", "http://["),
            ("Origin", f"http://127.0.0.1:{port}.evil.example"),
            ("Host", "evil.example:localhost"),
        ):
            for address in (page, run.served.address):
                answer = await http.post(address, headers={name: value}, json=_INITIALIZE)
                refused = answer.status_code in (400, 403, 421)
                guest.check(refused, f"{address} {name} {value}: {answer.status_code}")
    await anyio.sleep(0.1)


@family("left")
async def neighbours(run: Run, guest: Guest) -> None:
    """Clients of background gateways: each has its own environment, whatever another one sends."""
    await anyio.to_thread.run_sync(_neighbours, run, guest)


def _neighbours(run: Run, guest: Guest) -> None:
    machine = Machine()
    try:
        words = [str(_ATTACK), "one", "plain", str(run.folder / "one")]
        machine.write(one={"command": sys.executable, "args": words, "env": {"WHO": "${WHO}"}})
        clients = {name: machine.client(WHO=name) for name in ("ann", "bob")}
        for name, client in clients.items():
            client.initialize()
            client.call("one/say", text=name)
        pids = {gateway.pid for gateway in machine.gateways()}
        guest.check(len(pids) == len(clients), f"background gateways: {pids}")
        while not run.is_over:
            for message in _ODD_MESSAGES:
                _send_odd_message(machine, message)
            for name, client in clients.items():
                start = monotonic()
                said = client.call("one/who", text=name)["content"][0]["text"]
                guest.check(said == name, f"{name} has the environment of {said}")
                guest.check(monotonic() - start < _REPLY_S, f"{name} waited too long")
            run.rounds[guest.family] += 1
            sleep(2)
        guest.check({gateway.pid for gateway in machine.gateways()} == pids, "a gateway ended")
    finally:
        machine.close()


#: What a client sends over the socket of a background gateway.
_ODD_MESSAGES = (
    b"[" + b"{}," * 5_000_000 + b"0]\n",
    b"[" * 10_000_000 + b"\n",
    b"x" * 100_000_000,
    b'"' + b"\xff" * 10_000_000 + b'"\n',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' * 5_000,
)


def _send_odd_message(machine: Machine, message: bytes) -> None:
    """Send it to each gateway, on one of many connections, and read nothing."""
    for gateway in machine.gateways():
        with ExitStack() as stack, suppress(OSError):
            for _ in range(100):
                connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                connection.connect(str(gateway.log.with_suffix(".sock")))
            connection.settimeout(1)
            connection.sendall(greeting_line(profile="default") + message)


@family("left", "right")
async def hidden(run: Run, guest: Guest) -> None:
    """Names of hidden tools: each is answered like one that no server has."""
    other = next(own for profile, own in _OWN_SERVERS.items() if profile != guest.profile)
    for server, name in ((other, "say"), (_HIDDEN, "read_secret")):
        answers = []
        for tried in (name, "nothing"):
            text = guest.text()
            said = [
                (await guest.call(f"{server}/{tried}", text=text))[1],
                (await guest.ask("get_tool_details", names=[f"{server}/{tried}"]))[1],
                (await guest.ask("run_code", code=f"await {server}.{tried}(text='x')"))[1],
            ]
            answers.append([_without_near_names(answer).replace(tried, "NAME") for answer in said])
        guest.check(answers[0] == answers[1], f"{server}/{name} differs from none: {answers}")
    reached = run.folder / _HIDDEN / "calls"
    guest.check(not reached.read_text(), "a hidden tool was called")
    await anyio.sleep(0.5)


def _without_near_names(answer: str) -> str:
    """An answer without the permitted names that are near the name that was tried."""
    advice = r" (Nearest: |Call one of )[^\"]*"
    return re.sub(rf"{advice}|\"nearest\": \[[^]]*\]", "", answer)


@family("left", "right")
async def poisoned(run: Run, guest: Guest) -> None:
    """Hidden instructions in a definition: it is not listed, found, described or called."""
    for answer in (
        await guest.call("poisoned/read_note", name=guest.text()),
        await guest.ask("get_tool_details", names=["poisoned/read_note"], detail="full"),
        await guest.ask("search_tools", query="read a note", k=20),
        await guest.ask("list_servers"),
    ):
        guest.check("id_rsa" not in answer[1], f"hidden instructions: {answer[1][:300]}")
    await anyio.sleep(0.5)


@family("right")
async def stolen(run: Run, guest: Guest) -> None:
    """The id of another profile's session, and of its stored result."""
    owner = Guest(run, guest.family, "left")
    async with _session(run, owner) as session_id:
        for verb in ("POST", "GET", "DELETE"):
            status = await _request(run, guest.profile, session_id, verb)
            guest.check(status == 404, f"{verb} with a foreign session id: {status}")
        status = await _request(run, "left", session_id, "POST")
        guest.check(status == 200, f"the session's owner is answered with {status}")
    async with _connected(owner, "auto"):
        _, said = await owner.call("calm/say_at_length", text=owner.text())
        if stored := re.search(r'"id": "(\w+)"', said):
            failed, _ = await guest.ask("read_result", id=stored[1])
            guest.check(failed, "read_result gives another profile's result")
    await anyio.sleep(1)


@family("left")
async def malformed(run: Run, guest: Guest) -> None:
    """Requests that are no messages, with a token and without."""
    depth = 100_000
    bodies = [b"", b"{", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[" * depth, b"1" * 5_000_000]
    bodies.append(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud83d"}}')
    async with _http(guest.profile) as http, _http("nobody") as stranger:
        for body in bodies:
            answer = await http.post(run.served.address, content=body)
            guest.check(answer.status_code < 500, f"{body[:60]!r}: {answer.status_code}")
        answer = await stranger.post(run.served.address, content=b"{}")
        guest.check(answer.status_code == 401, f"a wrong token: {answer.status_code}")
    await anyio.sleep(2)


@family("right")
async def half_sent(run: Run, guest: Guest) -> None:
    """Connections by the thousand that never send a whole request, without a token."""
    address = httpx2.URL(run.served.address)
    run.refusing_until = monotonic() + 90
    # Elsewhere, so that the other clients here go on.
    connections = await anyio.to_thread.run_sync(_half_sent_requests, address.host, address.port)
    await anyio.sleep(3)
    for connection in connections:
        connection.close()
    run.refusing_until = monotonic() + 30
    with anyio.move_on_after(30) as limit:
        while True:
            with suppress(httpx2.TransportError, OSError):
                if await _request(run, guest.profile, "", "POST") == 200:
                    break
            await anyio.sleep(0.2)
    guest.check(not limit.cancelled_caught, "no new client is served 30 s after half-sent requests")
    await anyio.sleep(20)


def _half_sent_requests(host: str, port: int | None) -> list[socket.socket]:
    """Connections that have sent the beginning of a request, as many as the gateway accepts."""
    connections: list[socket.socket] = []
    for number in range(_HALF_SENT):
        try:
            connection = socket.create_connection((host, port or 80), timeout=5)
        except OSError:
            break
        connections.append(connection)
        with suppress(OSError):
            path = (b"/mcp", b"/inspect/")[number % 2]
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nX-A: " % path)
    return connections


def _http(token: str) -> httpx2.AsyncClient:
    headers = {
        "Authorization": f"Bearer token-of-{token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2025-06-18",
    }
    # A connection that is kept as long as the gateway keeps it may end while a request is sent.
    limits = httpx2.Limits(keepalive_expiry=1.0)
    return httpx2.AsyncClient(headers=headers, timeout=_REPLY_S, limits=limits)


_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "attack", "version": "1"},
    },
}


async def _request(run: Run, token: str, session_id: str, verb: str) -> int:
    """The status of a request in a session, or of the opening of one."""
    message: dict[str, object] = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    headers = {"MCP-Session-Id": session_id} if session_id else {}
    body = (message if session_id else _INITIALIZE) if verb == "POST" else None
    async with (
        _http(token) as http,
        http.stream(verb, run.served.address, headers=headers, json=body) as response,
    ):
        return response.status_code


@asynccontextmanager
async def _session(run: Run, guest: Guest) -> AsyncIterator[str]:
    """The id of a session, which ends with the block."""
    async with _http(guest.profile) as http:
        opened = await http.post(run.served.address, json=_INITIALIZE)
        session_id = opened.headers["mcp-session-id"]
        headers = {"MCP-Session-Id": session_id}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(run.served.address, headers=headers, json=initialized)
        yield session_id
        await http.delete(run.served.address, headers=headers)


@asynccontextmanager
async def _connected(guest: Guest, mode: str) -> AsyncIterator[None]:
    """Connect a client, over stdio or HTTP by its profile. It answers questions with their text."""

    async def answer(_context: Any, params: Any) -> types.ElicitResult:
        guest.see(params.message, "a question")
        mark = _MARK.search(params.message)
        guest.check(
            mark is not None and params.message.startswith("["), f"asked {params.message[:200]!r}"
        )
        return types.ElicitResult(action="accept", content={"answer": mark[0] if mark else ""})

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        guest.see(str(params.data), "a log message")

    options: dict[str, Any] = {"elicitation_callback": answer, "logging_callback": log}
    if guest.profile == _STDIO_PROFILE:
        with Path(os.devnull).open("w") as nothing:
            async with Client(stdio_client(guest.run.command, errlog=nothing), **options) as client:
                guest.client = client
                yield
        return
    async with (
        _http(guest.profile) as http,
        Client(
            streamable_http_client(guest.run.served.address, http_client=http),
            mode=mode,
            **options,
        ) as client,
    ):
        guest.client = client
        yield


def _chosen_families() -> list[str]:
    names = os.environ.get("SHORTLIST_ATTACK", "")
    return ["steady", *names.split(",")] if names else list(_FAMILIES)


async def _attack(run: Run) -> None:
    """All families at once until the end; then every server answers again."""
    await _recover(run)
    await _settle_files(run)
    if run.seconds == _LONG_S:
        await _fill_store(run)
    run.end = monotonic() + run.seconds
    with anyio.fail_after(run.seconds + 5 * _REPLY_S):
        async with anyio.create_task_group() as watching:
            watching.start_soon(_watch, run)
            async with anyio.create_task_group() as group:
                stdio: list[Guest] = []
                for name in _chosen_families():
                    for number, profile in enumerate(_FAMILIES[name][1]):
                        guest = Guest(run, name, profile)
                        if profile == _STDIO_PROFILE:
                            stdio.append(guest)
                        else:
                            mode = ("auto", "legacy")[number // 2 % 2]
                            mode = "legacy" if name == "questions" else mode
                            group.start_soon(_repeat, run, guest, mode)
                group.start_soon(_repeat_over_stdio, run, stdio)
            watching.cancel_scope.cancel()
        await _recover(run)
        await _settle_files(run)


async def _repeat(run: Run, guest: Guest, mode: str) -> None:
    """Repeat the rounds of a family; connect again where the gateway may refuse connections."""
    attack = _FAMILIES[guest.family][0]
    while not run.is_over:
        try:
            async with _connected(guest, mode):
                while not run.is_over:
                    await attack(run, guest)
                    run.rounds[guest.family] += 1
        except Exception as error:
            if not _is_refusal(error):
                raise
            may_refuse = monotonic() <= run.refusing_until
            guest.check(may_refuse, f"the gateway refused a request: {error!r:.200}")
            await anyio.sleep(0.5)


def _is_refusal(error: BaseException) -> bool:
    """Whether the gateway refused or dropped a connection."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_refusal(one) for one in error.exceptions)
    ends = httpx2.TransportError, OSError, MCPError, anyio.ClosedResourceError
    return isinstance(error, (*ends, anyio.BrokenResourceError))


async def _repeat_over_stdio(run: Run, guests: list[Guest]) -> None:
    """The families whose clients share the gateway over stdio."""
    if not guests:
        return
    async with _connected(guests[0], "auto"), anyio.create_task_group() as group:
        for server in _STDIO_SERVERS[: None if "halves" in _chosen_families() else -1]:
            await _until_answered(guests[0], f"{server}/{'echo' if server == 'rough' else 'say'}")
        for guest in guests:
            guest.client = guests[0].client
            group.start_soon(_rounds, run, guest)


async def _rounds(run: Run, guest: Guest) -> None:
    while not run.is_over:
        await _FAMILIES[guest.family][0](run, guest)
        run.rounds[guest.family] += 1


async def _recover(run: Run) -> None:
    """Wait until every server answers, those that were attacked too."""
    servers = ["calm/say", "rough/echo", "wild/say", "floods/say", "turns/say", "grows/say_word"]
    if set(_chosen_families()) >= {"packed", "lists", "halves"}:
        servers += ["zip/say", "long/say", "halves/say"]
    for profile, own in _OWN_SERVERS.items():
        guest = Guest(run, "recovery", profile)
        async with _connected(guest, "auto"), anyio.create_task_group() as group:
            for name in (f"{own}/say", *servers):
                group.start_soon(_until_answered, guest, name)


async def _fill_store(run: Run) -> None:
    guest = Guest(run, "recovery", "left")
    async with _connected(guest, "auto"):
        for _ in range(_STORED_CHARS // _STORED_RESULT_CHARS + 1):
            failed, said = await guest.call("rough/big", bytes=_STORED_RESULT_CHARS)
            guest.check(not failed, f"rough/big: {said[:200]}")


async def _until_answered(guest: Guest, name: str) -> None:
    text = guest.text()
    said = ""
    with anyio.move_on_after(_RECOVERY_S):
        while text not in said:
            _, said = await guest.call(name, text=text, word=text)
            await anyio.sleep(0.2)
    guest.check(text in said, f"{name}: {said[:200]}")


async def _settle_files(run: Run) -> None:
    """Record the descriptors, when no server runs any more and ended connections are closed."""
    with anyio.move_on_after(60):
        while "started" in run.served.states():
            await anyio.sleep(0.5)
    run.files.append(open_files(run.served.pid))
    with anyio.move_on_after(60):
        while run.files[-1] > run.files[0] + _MORE_FILES:
            await anyio.sleep(0.5)
            run.files[-1] = open_files(run.served.pid)


async def _watch(run: Run) -> None:
    while True:
        run.memory.append(resident(run.served.pid))
        await anyio.sleep(1)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    port = _free_port()
    notes = tmp_path / "rough"
    notes.mkdir()
    secrets = tmp_path / _HIDDEN
    secrets.mkdir()
    (secrets / "calls").touch()
    secret = {"name": "read_secret", "description": "Read.", "inputSchema": {"type": "object"}}
    (secrets / "tools.json").write_text(json.dumps([secret]))
    commands: dict[str, list[object]] = {
        "calm": [_LOAD, "calm"],
        **{name: [_LOAD, name] for name in _OWN_SERVERS.values()},
        "rough": [_TESTS / "rough_server.py", "plain", notes],
        "talking": [_TESTS / "talking_server.py", "talking", "older"],
        "poisoned": [_TESTS / "poisoned_server.py"],
        "grows": [_TESTS / "changing_server.py", "stdio"],
        _HIDDEN: [_TESTS / "recording_server.py", secrets],
        "turns": [_ATTACK, "turns", "turns", tmp_path / "turns"],
        "wild": [_ATTACK, "wild", "plain", tmp_path / "wild"],
        # Of its own, because the gateway stops it, and starts it again later and later.
        "floods": [_ATTACK, "floods", "plain", tmp_path / "floods"],
        "halves": [_ATTACK, "halves", "half", tmp_path / "halves"],
        "long": [_ATTACK, "long", "long", tmp_path / "long"],
        "names": [_ATTACK, "names", "names", tmp_path / "names"],
    }
    entries: dict[str, Any] = {
        name: {"command": sys.executable, "args": [str(word) for word in words]}
        for name, words in commands.items()
    }
    own = {
        "pass_through": 0,
        "result_tokens": 500,
        "idle_stop_s": 3,
        "code": True,
        "timeouts": {"talking/ask_once_cancelled": 1, "*/hang": 5, "*": 30},
        "engine": {"tiers": ["lexical"]},
    }
    profiles = {
        name: {"servers": [own_server, *_SHARED], "token": f"token-of-{name}"}
        for name, own_server in _OWN_SERVERS.items()
    }
    stdio = Setup.write(tmp_path / "stdio", {name: entries[name] for name in _STDIO_SERVERS}, own)
    command = StdioServerParameters(
        command=stdio.command[0], args=stdio.command[1:], env=stdio.environment
    )
    entries["zip"] = {"url": f"http://127.0.0.1:{port}/mcp"}
    zip_folder = str(tmp_path / "zip")
    api_port = _free_port()
    entries["api"] = {
        "openapi": str(_API_DOCUMENT),
        "url": f"http://127.0.0.1:{api_port}/v1",
        "headers": {"Authorization": f"Bearer {SECRET}"},
    }
    api_server = [sys.executable, str(_API), "http://unused", str(api_port)]
    setup = Setup.write(tmp_path / "http", entries, {**own, "profiles": profiles})
    zip_server = [sys.executable, str(_ATTACK), "zip", "plain", zip_folder, str(port)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with subprocess.Popen(zip_server) as bombing, subprocess.Popen(api_server) as api:
        try:
            # A user's gateway has this limit; the clients here need more.
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, limits[1]))
            with over_http(setup, 120) as served:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                served.settle(120)
                yield Run(served, command, tmp_path, request.param)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            bombing.terminate()
            api.terminate()


@pytest.mark.parametrize("run", [_SHORT_S, _LONG_S], indirect=True, ids=["short", "long"])
def test_nothing_is_mixed_up_or_lost_while_all_attack(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    anyio.run(_attack, run)
    slow_ms = sorted(run.waits_ms)[len(run.waits_ms) * 99 // 100]
    with capsys.disabled():
        sys.stdout.write(f"\n{_report(run, slow_ms)}\n")
    assert not any(run.wrong.values()), _problems(run)
    assert set(run.rounds) >= set(_chosen_families())
    assert slow_ms < _SLOW_MS
    assert max(run.memory) < _MAX_MEMORY
    # A short run is all warm-up: what is loaded on first use counts as growth in it.
    if run.seconds > _LONG_S / 2:
        assert _growth(run.memory) < _GROWTH
    assert run.files[-1] <= run.files[0] + _MORE_FILES


@pytest.mark.parametrize("run", [_ALONE_S], indirect=True)
def test_no_family_delays_the_calls_of_others(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    delays: dict[str, list[Delay]] = {}
    anyio.run(_attack_one_by_one, run, delays)
    with capsys.disabled():
        for name, tries in delays.items():
            sys.stdout.write(f"\n{name}: {'; '.join(map(str, tries))}")
    assert not any(run.wrong.values()), _problems(run)
    assert [name for name, tries in delays.items() if not _is_small(tries)] == []


class Delay(NamedTuple):
    """The longest calls of the calm server in milliseconds, and bytes that the gateway took."""

    alone_ms: float
    attacked_ms: float
    added: int

    def __str__(self) -> str:
        return (
            f"alone {self.alone_ms:.0f} ms, attacked {self.attacked_ms:.0f} ms, "
            f"{self.added / 1e6:+.0f} MB"
        )


def _is_small(tries: list[Delay]) -> bool:
    """Whether a try was within the limits."""
    return any(
        delay.attacked_ms - delay.alone_ms <= _MAX_DELAY_MS and delay.added <= _MAX_ADDED
        for delay in tries
    )


async def _attack_one_by_one(run: Run, delays: dict[str, list[Delay]]) -> None:
    """Each family alone for some seconds, after as many seconds without one."""
    await _recover(run)
    names = [name for name in _chosen_families() if name != "steady"]
    command = [sys.executable, str(_CALLER), run.served.address, "token-of-left"]
    async with await anyio.open_process(command, stderr=None) as caller:
        assert caller.stdout is not None
        calls: list[tuple[float, float]] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_read_calls, caller.stdout, calls)
            group.start_soon(_watch, run)
            for name in names:
                delays[name] = []
                while len(delays[name]) < _TRIES and not _is_small(delays[name]):
                    delays[name].append(await _delay_by(run, name, calls))
            assert caller.returncode is None, "a call of the calm server failed"
            group.cancel_scope.cancel()
        caller.terminate()


async def _read_calls(output: ByteReceiveStream, calls: list[tuple[float, float]]) -> None:
    rest = ""
    async for text in TextReceiveStream(output):
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            start, milliseconds = map(float, line.split())
            calls.append((start, milliseconds))


async def _delay_by(run: Run, name: str, calls: list[tuple[float, float]]) -> Delay:
    start, before = monotonic(), resident(run.served.pid)
    await anyio.sleep(run.seconds)
    attack_start, run.end = monotonic(), monotonic() + run.seconds
    del run.memory[:]
    async with anyio.create_task_group() as group:
        for number, profile in enumerate(_FAMILIES[name][1]):
            if profile != _STDIO_PROFILE:
                mode = "legacy" if name == "questions" or number % 2 else "auto"
                group.start_soon(_repeat, run, Guest(run, name, profile), mode)
    await anyio.sleep(1)  # the last call may have ended by now
    alone = [ms for began, ms in calls if start <= began < attack_start - 0.5]
    attacked = [ms for began, ms in calls if began >= attack_start - 0.5]
    return Delay(max(alone), max(attacked), max(run.memory) - before)


def _growth(memory: list[int]) -> float:
    """Bytes that the median of the last quarter is above that of the second."""
    quarter = len(memory) // 4
    return statistics.median(memory[-quarter:]) - statistics.median(memory[quarter : 2 * quarter])


def _report(run: Run, slow_ms: float) -> str:
    median_ms = statistics.median(run.waits_ms)
    sizes = [round(size / 1e6) for size in run.memory[:: max(1, len(run.memory) // 12)]]
    lines = [
        f"attacked for {run.seconds:.0f} s by {run.guests} clients; {len(run.waits_ms):,} calls of "
        f"the calm server, median {median_ms:.0f} ms, 99 of 100 in {slow_ms:.0f} ms; memory "
        f"{sizes} MB, most {max(run.memory) / 1e6:.0f}, growth {_growth(run.memory) / 1e6:.1f}; "
        f"descriptors {run.files}"
    ]
    lines += [
        f"  {name}: {run.rounds[name]} rounds, {run.right[name]} right, {len(run.wrong[name])} "
        f"wrong, failed {dict(run.failed[name])}"
        for name in (*_chosen_families(), "recovery")
    ]
    return "\n".join(lines)


def _problems(run: Run) -> str:
    problems = [
        f"{name}: {problem}" for name, problems in run.wrong.items() for problem in problems[:5]
    ]
    return "\n".join([*problems, "the end of the gateway's log:", *run.served.log_lines[-200:]])
