"""Many clients over HTTP while servers are killed and change their lists. Run by `make test-long`.

What is bounded: clients, calls, and the seconds of a run. It listens on the loopback only.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from .gateway_process import Served, Setup, over_http
from .processes import descendants, open_files, resident

pytestmark = pytest.mark.long

_SERVER = str(Path(__file__).with_name("load_server.py"))
#: Profile to the servers that it allows; `both` is allowed to either.
_ALLOWED = {"left": ("one", "two", "both"), "right": ("three", "four", "both")}
_SERVERS = ("one", "two", "three", "four", "both")
#: Seconds that one reply may take, and the whole run.
_REPLY, _WHOLE = 120.0, 1_500.0
#: Times that a server is killed in a run, and that one is asked to change its list.
_KILLS, _CHANGES = 40, 200
#: Share of calls that may meet a dead server, and resident bytes that the last three quarters of a
#: run may gain.
_FAILING, _GROWTH = 0.25, 10_000_000


@dataclass
class Seen:
    """What the clients saw."""

    right: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    changes: int = 0
    resident: list[int] = field(default_factory=list)
    open_files: list[int] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.right + self.failed.total() + len(self.wrong)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    entries = {name: {"command": sys.executable, "args": [_SERVER, name]} for name in _SERVERS}
    profiles = {
        name: {"servers": list(allowed), "token": f"token-of-{name}"}
        for name, allowed in _ALLOWED.items()
    }
    own = {"pass_through": 0, "result_tokens": 500, "profiles": profiles}
    own["engine"] = {"tiers": ["lexical"]}
    with over_http(Setup.write(tmp_path / "home", entries, own), 120) as made:
        made.settle(120)
        yield made
        left = descendants(made.pid)
    assert not [pid for pid in left if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(("clients", "calls"), [(8, 400), (50, 10_000)])
def test_no_reply_is_wrong_or_lost_while_servers_die_and_change(
    served: Served, clients: int, calls: int, capsys: pytest.CaptureFixture[str]
) -> None:
    start = monotonic()
    seen = anyio.run(_load, served, clients, calls)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{clients} clients, {seen.calls:,} calls in {monotonic() - start:.0f} s: "
            f"{seen.right:,} right, {dict(seen.failed)} with an error, {len(seen.wrong)} wrong; "
            f"{seen.kills} kills, {seen.changes} changes of a list; resident MB "
            f"{[round(one / 1e6) for one in seen.resident]}, open files {seen.open_files}\n"
        )
    assert seen.wrong == []
    assert seen.calls == clients * (calls // clients)
    assert seen.kills
    assert seen.changes
    assert seen.failed.total() <= _FAILING * seen.calls
    # A short run is all warm-up: what is loaded on first use counts as growth in it.
    if calls >= 10_000:
        assert seen.resident[-1] - seen.resident[len(seen.resident) // 4] < _GROWTH
    assert seen.open_files[-1] <= seen.open_files[0] + 8


async def _load(served: Served, clients: int, calls: int) -> Seen:
    seen = Seen()
    with anyio.fail_after(_WHOLE):
        await _everyone_answers(served)
        seen.open_files.append(open_files(served.pid))
        async with anyio.create_task_group() as around:
            around.start_soon(_kill, served, seen, calls // _KILLS)
            around.start_soon(_change, served, seen, calls // _CHANGES)
            around.start_soon(_watch, served, seen)
            async with anyio.create_task_group() as group:
                for number in range(clients):
                    group.start_soon(_client, served, number, calls // clients, seen)
            around.cancel_scope.cancel()
        await _everyone_answers(served)
        await anyio.sleep(2)
    seen.resident.append(resident(served.pid))
    seen.open_files.append(open_files(served.pid))
    return seen


async def _client(served: Served, number: int, calls: int, seen: Seen) -> None:
    """Calls of one client, half of the older era, each with a text of its own."""
    chance = random.Random(number)
    profile = ("left", "right")[number % 2]
    mode = ("auto", "legacy")[number // 2 % 2]
    other = next(one for one in _ALLOWED if one != profile)
    foreign = [one for one in _SERVERS if one not in _ALLOWED[profile]]
    async with _connected(served, profile, mode) as client:
        for at in range(calls):
            text = f"{profile}-{number}-{at}"
            with anyio.fail_after(_REPLY):
                kind = chance.random()
                if kind < 0.1:
                    await _search(client, profile, foreign, seen)
                elif kind < 0.15:
                    await _denied(client, chance.choice(foreign), text, seen)
                elif kind < 0.2:
                    await _at_length(client, chance.choice(_ALLOWED[profile]), text, other, seen)
                else:
                    await _say(client, chance.choice(_ALLOWED[profile]), text, seen)


async def _say(client: Client, server: str, text: str, seen: Seen) -> None:
    given = {"name": f"{server}/say", "arguments": {"text": text}}
    result = await client.call_tool("call_tool", given)
    answer = result.content[0].text
    if not result.is_error and answer == f"{server}:{text}":
        seen.right += 1
    elif result.is_error and f"server '{server}'" in answer:
        seen.failed[answer.split(": ")[0].replace(f"'{server}'", "N")] += 1
    else:
        seen.wrong.append(f"{server} {text}: {answer[:200]}")


async def _at_length(client: Client, server: str, text: str, other: str, seen: Seen) -> None:
    """A result that is stored: its owner reads on in it, and finds only his own text."""
    given = {"name": f"{server}/say_at_length", "arguments": {"text": text}}
    result = await client.call_tool("call_tool", given)
    answer = "".join(part.text for part in result.content)
    if result.is_error and f"server '{server}'" in answer:
        seen.failed[answer.split(": ")[0].replace(f"'{server}'", "N")] += 1
        return
    name = answer.split('{"id": "')[1].split('"')[0]
    rest = (await client.call_tool("read_result", {"id": name})).content[0].text
    if f"{server}:{text} " in rest and f"{other}-" not in rest:
        seen.right += 1
    else:
        seen.wrong.append(f"stored {server} {text}: {rest[:200]}")


async def _search(client: Client, profile: str, foreign: list[str], seen: Seen) -> None:
    result = await client.call_tool("search_tools", {"query": "say a text", "k": 20})
    names = [one["name"] for one in (result.structured_content or {}).get("tools", ())]
    found = {name.partition("/")[0] for name in names}
    if result.is_error or not found or found & set(foreign):
        seen.wrong.append(f"search as {profile}: {sorted(found)} {result.content[0].text[:200]}")
    else:
        seen.right += 1


async def _denied(client: Client, server: str, text: str, seen: Seen) -> None:
    given = {"name": f"{server}/say", "arguments": {"text": text}}
    result = await client.call_tool("call_tool", given)
    if result.is_error and text not in result.content[0].text:
        seen.right += 1
    else:
        seen.wrong.append(f"not denied: {server} {result.content[0].text[:200]}")


async def _everyone_answers(served: Served) -> None:
    """Every server answers, restarted where it has to be; with a deadline."""
    for profile, servers in _ALLOWED.items():
        async with _connected(served, profile, "auto") as client:
            for server in servers:
                with anyio.fail_after(_REPLY):
                    while True:
                        given = {"name": f"{server}/say", "arguments": {"text": "there"}}
                        result = await client.call_tool("call_tool", given)
                        if not result.is_error:
                            break
                        await anyio.sleep(0.5)
                assert result.content[0].text == f"{server}:there"


async def _kill(served: Served, seen: Seen, every: int) -> None:
    """Kill a server after every so many calls, once all that were killed before run again."""
    chance = random.Random(1)
    while True:
        await anyio.sleep(0.2)
        running = [pid for pid, words in descendants(served.pid).items() if _SERVER in words]
        if len(running) == len(_SERVERS) and seen.calls >= every * (seen.kills + 1):
            os.kill(chance.choice(sorted(running)), signal.SIGKILL)
            seen.kills += 1


async def _change(served: Served, seen: Seen, every: int) -> None:
    """Have a server change its list after every so many calls."""
    chance = random.Random(2)
    asked = 0
    async with (
        _connected(served, "left", "auto") as left,
        _connected(served, "right", "auto") as right,
    ):
        while True:
            await anyio.sleep(0.05)
            if seen.calls < every * (asked + 1):
                continue
            client, profile = chance.choice(((left, "left"), (right, "right")))
            name = f"{chance.choice(_ALLOWED[profile])}/change"
            result = await client.call_tool("call_tool", {"name": name, "arguments": {}})
            seen.changes += not result.is_error
            asked += 1


async def _watch(served: Served, seen: Seen) -> None:
    while True:
        await anyio.sleep(5)
        seen.resident.append(resident(served.pid))


@asynccontextmanager
async def _connected(served: Served, profile: str, mode: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer token-of-{profile}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=_REPLY) as http,
        Client(streamable_http_client(served.address, http_client=http), mode=mode) as client,
    ):
        yield client
