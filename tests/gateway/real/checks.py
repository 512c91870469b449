"""What real servers give directly, and what they give through a gateway and a real client."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from .clients import Caller, Inspector, Result, sdk1, sdk2
from .gateway_process import Setup, over_http
from .material import calls, local_site, queries, refill
from .packages import NotInstalledError
from .same_result import comparable
from .servers import RealServer, entries

#: Ways to use the gateway: SDK 2.x over stdin and stdout, the others over HTTP.
CLIENTS = ("sdk2", "sdk1", "inspector")


@dataclass(frozen=True)
class Real:
    """The servers that are installed here, what they list and answer, and a gateway for them."""

    setup: Setup
    work: Path
    site: str
    entries: Mapping[str, Any]
    missing: tuple[str, ...]
    install: bool
    listed: dict[str, list[Result]] = field(default_factory=dict)
    answered: dict[str, list[Result]] = field(default_factory=dict)


@contextmanager
def real_servers(
    root: Path, servers: Iterable[RealServer], *, install: bool, first_start: float
) -> Iterator[Real]:
    """Servers that a gateway has started once, and what they answer directly.

    Args:
        root: an empty folder.
        servers: which.
        install: whether missing packages are installed.
        first_start: seconds that all together may take to start for the first time.
    """
    refill(root / "work")
    found, missing = entries(servers, root / "work", install=install)
    # No result of the calls is shortened: they are compared with those of the servers.
    setup = Setup.write(root / "home", found, {"pass_through": 0, "result_tokens": 200_000})
    with over_http(setup) as served:
        states = served.settle(first_start)
    assert set(states) <= {"started"}, states
    with local_site() as site:
        made = Real(setup, root / "work", site, found, tuple(missing), install)
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
                return Inspector([served.address], dict(os.environ), install=self._real.install)
            old = sdk1(served.address, dict(os.environ), install=self._real.install)
            return await self._async.enter_async_context(old)
        except NotInstalledError as problem:
            self._sync.close()
            pytest.skip(str(problem))

    async def __aexit__(self, *failure: Any) -> None:
        await self._async.__aexit__(*failure)
        self._sync.__exit__(*failure)


async def ranks(real: Real, client: str, wanted: Mapping[str, str]) -> dict[str, int]:
    """Place of each tool among the first ten for its query; 0 where it is not among them."""
    placed = {}
    async with Front(real, client) as front:
        for tool, query in wanted.items():
            result = await front.call("search_tools", {"query": query, "k": 10})
            names = [one["name"] for one in result["structuredContent"]["tools"]]
            placed[tool] = names.index(tool) + 1 if tool in names else 0
    return placed


def queries_for(real: Real) -> dict[str, str]:
    """The queries for the tools of the servers that are installed here."""
    return {tool: one for tool, one in queries().items() if tool.split("/")[0] in real.entries}


async def described(real: Real, client: str) -> dict[str, Any]:
    """What `get_tool_details` says of every tool, by id."""
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


def check_descriptions(real: Real, shown: Mapping[str, Any]) -> None:
    """The definitions of all tools are those that their servers list."""
    for name, tools in real.listed.items():
        for tool in tools:
            one = shown[f"{name}/{tool['name']}"]
            assert _spaced(one.get("input_schema", {})) == _spaced(tool["inputSchema"]), one
            assert _spaced(one.get("description", "")) == _spaced(tool.get("description", "")), one


def _spaced(value: Any) -> Any:
    """The same with one blank for each run of white space, which the catalog tidies."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {key: _spaced(one) for key, one in value.items()}
    return [_spaced(one) for one in value] if isinstance(value, list) else value


async def ask_through(real: Real, client: str) -> dict[str, list[Result]]:
    """What all calls give through one gateway and a client, by server."""
    refill(real.work)
    answered: dict[str, list[Result]] = {}
    async with Front(real, client) as front:
        for server in real.entries:
            answered[server] = []
            for tool, arguments in calls(server, real.work, real.site):
                given = {"name": f"{server}/{tool}", "arguments": arguments}
                answered[server].append(await front.call("call_tool", given))
    return answered


def check_calls(real: Real, through: Mapping[str, list[Result]], name: str) -> None:
    """The calls of a server gave through a gateway what they gave directly."""
    if name not in real.entries:
        pytest.skip(next(line for line in real.missing if line.startswith(f"{name}:")))
    made = calls(name, real.work, real.site)
    if not made:
        pytest.skip(f"{name}: each tool needs a network or a browser")
    for (tool, _), one, other in zip(made, real.answered[name], through[name], strict=True):
        assert not one.get("isError"), (tool, one)
        assert comparable(other) == comparable(one), tool
