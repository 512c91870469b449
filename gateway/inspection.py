"""Starts the servers of a fleet once, and reports the tools and problems of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import anyio

from .definition_tokens import DefinitionTokens
from .fleet import Fleet
from .upstream import ServerState, Upstream, UpstreamError


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


async def inspect_servers(fleet: Fleet, *, only_unknown: bool = False) -> list[ServerReport]:
    """Start the servers in parallel, report, and stop them.

    Each server has its own start timeout. A server that hangs delays the report by at most that
    time.

    Args:
        fleet: must not be running.
        only_unknown: whether to start only servers whose tools are not known from an earlier start.
    """
    refused: set[str] = set()

    async def start(name: str, upstream: Upstream) -> None:
        try:
            await upstream.ready()
        except UpstreamError:
            refused.add(name)

    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        async with anyio.create_task_group() as starts:
            for name, upstream in fleet.upstreams.items():
                if not (only_unknown and upstream.state is ServerState.KNOWN):
                    starts.start_soon(start, name, upstream)
        reports = list(_reports(fleet, refused))
        group.cancel_scope.cancel()
    return reports


def _reports(fleet: Fleet, refused: set[str]) -> Iterable[ServerReport]:
    tokens = DefinitionTokens().of(fleet.engine.catalog)
    problems = fleet.problems()
    for name, upstream in fleet.upstreams.items():
        found = list(problems.get(name, ()))
        if name in refused and upstream.problem is None:
            found.insert(0, f"it did not start within {upstream.spec.start_timeout_s:g} s")
        yield ServerReport(
            name,
            available=name not in refused,
            tokens={
                tool.id: tokens[tool.id] for tool in fleet.engine.catalog if tool.server == name
            },
            ms=upstream.started_ms if upstream.state is ServerState.STARTED else None,
            problems=tuple(found),
        )
