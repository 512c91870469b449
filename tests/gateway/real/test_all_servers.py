"""Every real server behind the gateway, three real clients in front. Run by `make test-long`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from shortlist.loaders.counting import bundled_counter

from .clients import Caller, Inspector, Result, sdk1, sdk2
from .gateway_process import Setup, over_http
from .material import calls, local_site, queries, refill
from .packages import NotInstalledError
from .same_result import comparable
from .servers import SERVERS, entries

pytestmark = pytest.mark.long

#: Seconds that all servers together may take to start for the first time.
_FIRST_START = 400
_GOAL = 0.92
_CLIENTS = ("sdk2", "sdk1", "inspector")


@dataclass(frozen=True)
class Real:
    """The servers that are installed here, what they list and answer, and a gateway for them."""

    setup: Setup
    work: Path
    site: str
    entries: Mapping[str, Any]
    missing: tuple[str, ...]
    listed: dict[str, list[Result]] = field(default_factory=dict)
    answered: dict[str, list[Result]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    root = tmp_path_factory.mktemp("real")
    refill(root / "work")
    found, missing = entries(SERVERS, root / "work")
    # No result of the calls is shortened: they are compared with those of the servers.
    setup = Setup.write(root / "home", found, {"pass_through": 0, "result_tokens": 200_000})
    with over_http(setup) as served:
        states = served.settle(_FIRST_START)
    assert set(states.values()) == {"started"}, states
    with local_site() as site:
        made = Real(setup, root / "work", site, found, tuple(missing))
        refill(made.work)
        anyio.run(_ask_directly, made)
        yield made


async def _ask_directly(real: Real) -> None:
    for name, entry in real.entries.items():
        command = [entry["command"], *entry["args"]]
        async with sdk2(command, entry["env"], Path(entry["cwd"])) as client:
            real.listed[name] = await client.tools()
            made = calls(name, real.work, real.site)
            real.answered[name] = [await client.call(*one) for one in made]


class Front:
    """A gateway process and one of the three clients, for one test."""

    def __init__(self, real: Real, client: str) -> None:
        self._real, self._client = real, client
        self._sync, self._async = ExitStack(), AsyncExitStack()

    async def __aenter__(self) -> Caller:
        setup = self._real.setup
        try:
            if self._client == "sdk2":
                made: Any = sdk2(setup.command, setup.environment)
                return await self._async.enter_async_context(made)
            served = self._sync.enter_context(over_http(setup))
            if self._client == "inspector":
                return Inspector([served.address], dict(os.environ))
            return await self._async.enter_async_context(sdk1(served.address, dict(os.environ)))
        except NotInstalledError as problem:
            pytest.skip(str(problem))

    async def __aexit__(self, *failure: Any) -> None:
        await self._async.__aexit__(*failure)
        self._sync.__exit__(*failure)


def _say(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


@pytest.mark.parametrize("name", [server.name for server in SERVERS])
def test_every_server_starts_and_lists_its_tools(real: Real, name: str) -> None:
    for line in real.missing:
        if line.startswith(f"{name}:"):
            pytest.skip(line)
    assert real.listed[name]


def test_there_are_twelve_servers_and_four_hundred_tools(real: Real) -> None:
    assert len(real.entries) >= 12
    assert sum(map(len, real.listed.values())) > 400


def test_there_is_a_query_for_each_tool(real: Real) -> None:
    there = {f"{name}/{tool['name']}" for name, tools in real.listed.items() for tool in tools}
    assert there <= set(queries())


@pytest.mark.parametrize("client", _CLIENTS)
def test_tools_are_found_by_the_query_written_for_them(
    real: Real, client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {
        tool: query for tool, query in queries().items() if tool.partition("/")[0] in real.entries
    }
    if client == "inspector":
        # A process for each request: one query a server shows that the way is the same.
        wanted = {
            tool: wanted[tool] for tool in {one.split("/")[0]: one for one in wanted}.values()
        }
    ranks = anyio.run(_ranks, real, client, wanted)
    found = Counter(tool.split("/")[0] for tool, rank in ranks.items() if rank)
    asked = Counter(tool.split("/")[0] for tool in ranks)
    with capsys.disabled():
        rows = [f"{name} {found[name]}/{count}" for name, count in sorted(asked.items())]
        total = f"{found.total()}/{asked.total()} = {found.total() / asked.total():.1%}"
        missed = ", ".join(tool for tool, rank in ranks.items() if not rank)
        _say(f"found in the first ten with {client}: {total}; {', '.join(rows)}; missed: {missed}")
    if client != "inspector":
        assert found.total() / asked.total() >= _GOAL


async def _ranks(real: Real, client: str, wanted: Mapping[str, str]) -> dict[str, int]:
    """Place of each tool among the first ten for its query; 0 where it is not among them."""
    ranks = {}
    async with Front(real, client) as front:
        for tool, query in wanted.items():
            result = await front.call("search_tools", {"query": query, "k": 10})
            names = [one["name"] for one in result["structuredContent"]["tools"]]
            ranks[tool] = names.index(tool) + 1 if tool in names else 0
    return ranks


@pytest.mark.parametrize("client", ["sdk2", "sdk1"])
def test_every_tool_is_described_as_its_server_defines_it(real: Real, client: str) -> None:
    described = anyio.run(_described, real, client)
    for name, tools in real.listed.items():
        for tool in tools:
            shown = described[f"{name}/{tool['name']}"]
            assert _spaced(shown.get("input_schema", {})) == _spaced(tool["inputSchema"])
            assert _spaced(shown.get("description", "")) == _spaced(tool.get("description", ""))


def _spaced(value: Any) -> Any:
    """The same with one blank for each run of white space, which the catalog tidies."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _spaced(one) for key, one in value.items()}
    return [_spaced(one) for one in value] if isinstance(value, list) else value


async def _described(real: Real, client: str) -> dict[str, Any]:
    ids = [f"{name}/{tool['name']}" for name, tools in real.listed.items() for tool in tools]
    found: dict[str, Any] = {}
    async with Front(real, client) as front:
        for at in range(0, len(ids), 20):
            result = await front.call("get_tool_details", {"names": ids[at : at + 20]})
            for one in result["structuredContent"]["tools"]:
                found[one["name"]] = one
        for one in [one for one in found.values() if "shortened" in one]:
            result = await front.call("get_tool_details", {"names": [one["name"]]})
            found[one["name"]] = result["structuredContent"]["tools"][0]
    return found


@pytest.fixture(scope="module", params=_CLIENTS)
def through(request: pytest.FixtureRequest, real: Real) -> dict[str, list[Result]]:
    """What each server's calls give through one gateway and one of the clients."""
    refill(real.work)
    return anyio.run(_ask_through, real, request.param)


async def _ask_through(real: Real, client: str) -> dict[str, list[Result]]:
    answered: dict[str, list[Result]] = {}
    async with Front(real, client) as front:
        for server in real.entries:
            answered[server] = []
            for tool, arguments in calls(server, real.work, real.site):
                given = {"name": f"{server}/{tool}", "arguments": arguments}
                answered[server].append(await front.call("call_tool", given))
    return answered


@pytest.mark.parametrize("name", [server.name for server in SERVERS])
def test_a_call_gives_what_the_server_gives(
    real: Real, through: dict[str, list[Result]], name: str
) -> None:
    if name not in real.entries:
        pytest.skip(f"{name} is not installed")
    made = calls(name, real.work, real.site)
    if not made:
        pytest.skip(f"{name}: none of its tools works without a network")
    for (tool, _), one, other in zip(made, real.answered[name], through[name], strict=True):
        assert not one.get("isError"), (tool, one)
        assert comparable(other) == comparable(one), tool


def test_the_definitions_cost_less_than_900_tokens(
    real: Real, capsys: pytest.CaptureFixture[str]
) -> None:
    async def listed() -> list[Result]:
        async with Front(real, "sdk2") as front:
            return await front.tools()

    count = bundled_counter().count
    shown = count(json.dumps(anyio.run(listed)))
    behind = count(json.dumps([tool for tools in real.listed.values() for tool in tools]))
    with capsys.disabled():
        _say(f"definitions: {shown:,} tokens in front of {behind:,}")
    assert shown < 900
    assert behind > 100_000
