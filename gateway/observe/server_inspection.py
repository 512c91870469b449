"""Starts servers once, and reports the tools and problems of each.

`read_configured_tools` does so for the servers of a configuration file, and returns their tools.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from ...catalog import Tool
from ...errors import CatalogError
from ..clients.client_config import read_client_config
from ..connections.connection_errors import slow_start
from ..connections.server_spec import ServerSpec
from ..upstream.fleet import Fleet
from ..upstream.server_connection import ServerState, Upstream, UpstreamError
from ..upstream.start_cache import ListingCache
from .definition_tokens import DefinitionTokens


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The tools and problems of a server.

    Args:
        name: name of the server.
        available: whether it started, or its tools are known from an earlier start.
        tokens: tool id to the tokens of its definition.
        ms: milliseconds from its start to its whole list, None if it was not started.
        problems: one line each, without secrets.
    """

    name: str
    available: bool
    tokens: dict[str, int]
    ms: float | None
    problems: tuple[str, ...]


#: Maximum number of servers that start at the same time. If more start together, they slow each
#: other down and exceed their time limits.
MAX_PARALLEL_STARTS = 4


async def inspect_servers(fleet: Fleet, *, only_unlisted: bool = False) -> list[ServerReport]:
    """Start the servers, `MAX_PARALLEL_STARTS` at a time, report, and stop them.

    The start timeout of a server counts from its own start.

    Args:
        fleet: must not be running, and have been made with `starts_unlisted=False`.
        only_unlisted: whether to start only servers whose tools no earlier start has listed.
    """
    failed_names: set[str] = set()
    places = anyio.CapacityLimiter(MAX_PARALLEL_STARTS)

    async def start(name: str, upstream: Upstream) -> None:
        async with places:
            try:
                await upstream.connect()
            except UpstreamError:
                failed_names.add(name)

    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        async with anyio.create_task_group() as starts:
            for name, upstream in fleet.upstreams.items():
                if not (only_unlisted and upstream.state is ServerState.KNOWN):
                    starts.start_soon(start, name, upstream)
        reports = list(_reports(fleet, failed_names))
        group.cancel_scope.cancel()
    return reports


def _reports(fleet: Fleet, failed_names: set[str]) -> Iterable[ServerReport]:
    """The reports of all servers, after the starts.

    Args:
        fleet: the servers.
        failed_names: names of the servers that did not start.
    """
    tokens = DefinitionTokens().count(fleet.engine.catalog)
    problems = fleet.problems()
    for name, upstream in fleet.upstreams.items():
        server_problems = list(problems.get(name, ()))
        # `problems` has `upstream.problem` already. A start that exceeds its time limit sets none.
        if name in failed_names and upstream.problem is None:
            server_problems.insert(0, slow_start(upstream.spec.start_timeout_s))
        yield ServerReport(
            name,
            available=name not in failed_names,
            tokens={
                tool.id: tokens[tool.id] for tool in fleet.engine.catalog if tool.server == name
            },
            ms=upstream.last_start_ms if upstream.state is ServerState.STARTED else None,
            problems=tuple(server_problems),
        )


@dataclass(frozen=True, slots=True)
class ConfiguredTools:
    """The tools of the servers in a configuration file.

    Args:
        tools: all tools; servers in the order of the file.
        problems: problems of the file, of servers and of tools, one line each.
    """

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]


def read_configured_tools(path: Path) -> ConfiguredTools:
    """Start every server of a configuration, list its tools, and stop it.

    Args:
        path: `mcp.json` or the file of another known client; see `read_client_config`.

    Raises:
        ConfigError: the file cannot be read.
        CatalogError: no server lists a tool. The message has the problem of each.

    Example::

        configured = read_configured_tools(Path("mcp.json"))
        engine = Engine.from_tools(configured.tools)
    """
    config = read_client_config(path)
    fleet, reports = anyio.run(_list_tools, [spec for spec in config.servers if not spec.disabled])
    problems = [
        *config.problems,
        *(
            f"server {report.name!r}: {problem}"
            for report in reports
            for problem in report.problems
        ),
    ]
    order = {name: position for position, name in enumerate(fleet.upstreams)}
    tools = sorted(fleet.engine.catalog, key=lambda tool: order[tool.server or ""])
    if not tools:
        none = "every server is disabled or lists none" if config.servers else "no servers in it"
        reasons = "; ".join(problems) or none
        raise CatalogError(f"{path}: no tools: {reasons}")
    return ConfiguredTools(tools=tuple(tools), problems=tuple(problems))


async def _list_tools(specs: Iterable[ServerSpec]) -> tuple[Fleet, list[ServerReport]]:
    # Lists of earlier starts are not used, so that the tools are the present ones.
    with TemporaryDirectory() as folder:
        fleet = Fleet(
            specs,
            engine_settings={"tiers": ["lexical"], "trust": {"scan": False}},
            listing_cache=ListingCache(Path(folder)),
            starts_unlisted=False,
        )
        return fleet, await inspect_servers(fleet)
