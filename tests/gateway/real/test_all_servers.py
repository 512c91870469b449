"""Every real server behind the gateway, three real clients in front. Run by `make test-long`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from shortlist.gateway.meta_tools.meta_tool_definitions import META_TOOL_NAMES

from .checks import (
    CLIENTS,
    Front,
    Real,
    ask_through,
    check_calls,
    check_descriptions,
    described,
    queries_for,
    ranks,
    real_servers,
)
from .clients import Result
from .material import queries
from .measure import tokens
from .servers import SERVERS

pytestmark = pytest.mark.long

#: Share of the tools that are among the first ten for the query written for them.
_GOAL = 0.92
_NAMES = [server.name for server in SERVERS]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    root: Path = tmp_path_factory.mktemp("real")
    with real_servers(root, SERVERS, install=True, first_start=400) as made:
        yield made


@pytest.fixture(scope="module", params=CLIENTS)
def through(request: pytest.FixtureRequest, real: Real) -> dict[str, list[Result]]:
    return anyio.run(ask_through, real, request.param)


def say(line: str) -> None:
    sys.stdout.write(f"\n{line}\n")


@pytest.mark.parametrize("name", _NAMES)
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


@pytest.mark.parametrize("client", CLIENTS)
def test_tools_are_found_by_the_query_written_for_them(
    real: Real, client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = queries_for(real)
    if client == "inspector":
        # A process for each request makes all queries too slow. It answers in the tier `fast`.
        first = {tool.split("/")[0]: tool for tool in reversed(wanted)}
        wanted = {tool: wanted[tool] for tool in first.values()}
    placed = anyio.run(ranks, real, client, wanted)
    found = Counter(tool.split("/")[0] for tool, rank in placed.items() if rank)
    asked = Counter(tool.split("/")[0] for tool in placed)
    share = found.total() / asked.total()
    with capsys.disabled():
        rows = ", ".join(f"{name} {found[name]}/{count}" for name, count in sorted(asked.items()))
        missed = ", ".join(tool for tool, rank in placed.items() if not rank)
        say(f"{client}: {found.total()} of {asked.total()} = {share:.1%} in the first ten")
        say(f"{rows}; missed: {missed or 'none'}")
    assert share >= _GOAL


@pytest.mark.parametrize("client", ["sdk2", "sdk1"])
def test_every_tool_is_described_as_its_server_defines_it(real: Real, client: str) -> None:
    check_descriptions(real, anyio.run(described, real, client))


@pytest.mark.parametrize("name", _NAMES)
def test_a_call_gives_what_the_server_gives(
    real: Real, through: dict[str, list[Result]], name: str
) -> None:
    check_calls(real, through, name)


def test_the_gateways_own_definitions_cost_less_than_900_tokens(
    real: Real, capsys: pytest.CaptureFixture[str]
) -> None:
    async def listed() -> list[Result]:
        async with Front(real, "sdk2") as front:
            return await front.tools()

    shown = anyio.run(listed)
    own = tokens([tool for tool in shown if tool["name"] in META_TOOL_NAMES])
    behind = tokens([tool for tools in real.listed.values() for tool in tools])
    with capsys.disabled():
        say(f"definitions: {own:,} of {tokens(shown):,} tokens in front of {behind:,}")
    assert own < 900
    assert behind > 100_000
