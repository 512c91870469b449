"""Asks servers with the tool `_tool_gating` which of their tools fit a query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import mcp.types as types

from ..catalog import Catalog, Tool
from ..gating import Votes
from ..gating.votes import VOTING_TOOL, Ballot, Vote, Voters
from ..pattern import granted
from ..view import View
from .caller import Caller
from .fleet import Fleet
from .meta_tools import Kind, kind_of
from .profile import Profile
from .upstream import ServerState, UpstreamError

#: Seconds after which a late vote is cancelled.
_LATEST = 5.0
_Answer = types.CallToolResult | types.InputRequiredResult


@dataclass(frozen=True, slots=True)
class Said:
    """The votes of servers about their own tools, for one search.

    Args:
        votes: the valid votes.
        arguments: server and tool to the arguments of a claim that may be called without the model.
    """

    votes: Votes = field(default_factory=Votes)
    arguments: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def claimed(self, view: View) -> tuple[Tool, Mapping[str, Any]] | None:
        """The claimed tool to call without the model, and its arguments; None if there is none.

        It must be permitted and annotated as read-only, because clients expect that a search
        changes nothing.

        Args:
            view: a view with these votes.
        """
        for row in view.admission.claimed[:1]:
            tool = view.admission.tools[row]
            given = self.arguments.get((tool.server or "", tool.name))
            if given is not None and kind_of(tool.annotations) is Kind.READ:
                return tool, given
        return None


async def collect_votes(
    fleet: Fleet, profile: Profile, query: str, catalog: Catalog, caller: Caller
) -> Said:
    """Ask the servers for their votes about a query.

    Servers are asked if they run, have the tool, and may vote by the profile. All are asked in
    parallel, for at most 50 ms. Late and invalid answers are ignored.

    Args:
        fleet: the servers.
        profile: profile with the servers that may vote and claim.
        query: text to search for; the asked servers get it.
        catalog: the catalog version of the search.
        caller: the client's request, which gets the servers' messages.
    """
    asked = [
        name
        for name in sorted(fleet.listed.voters)
        if granted(name, profile.asked)
        and profile.names_server(name)
        and name in fleet.upstreams
        and fleet.upstreams[name].state is ServerState.STARTED
    ]
    if not asked:
        return Said()
    arguments: dict[tuple[str, str], Mapping[str, Any]] = {}
    voters = Voters(
        {name: partial(_votes, fleet, arguments, caller) for name in asked},
        trusted=[name for name in asked if granted(name, profile.trusted)],
    )
    votes = await voters.collect(query, catalog)
    called = {key: one for key, one in arguments.items() if granted(key[0], profile.called)}
    return Said(votes, called)


async def _votes(
    fleet: Fleet,
    arguments: dict[tuple[str, str], Mapping[str, Any]],
    caller: Caller,
    ballot: Ballot,
) -> Iterable[Vote]:
    result = await _call_voting_tool(fleet, ballot, caller)
    if not isinstance(result, types.CallToolResult) or result.is_error:
        raise UpstreamError(f"server {ballot.server!r}: its vote failed")
    said = _said(result)
    rows = said.get("votes") if isinstance(said, dict) else None
    if not isinstance(rows, list):
        raise UpstreamError(f"server {ballot.server!r}: its answer has no list `votes`")
    rows = rows[: 2 * len(ballot.tools) + 1]
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("arguments"), dict):
            arguments[ballot.server, str(row.get("tool"))] = row["arguments"]
    return [_vote(row) for row in rows]


async def _call_voting_tool(fleet: Fleet, ballot: Ballot, caller: Caller) -> _Answer:
    """The server's answer.

    A vote that comes too late for the search is not cancelled. A cancelled call would be a possible
    cause of the server's questions until the gateway connects again.
    """
    given = {"query": ballot.query, "tools": list(ballot.tools)}
    upstream = fleet.upstreams[ballot.server]
    give, take = anyio.create_memory_object_stream[_Answer | Exception](1)

    async def call() -> None:
        # Not a time limit of the call: the server is restarted after some calls that exceed theirs.
        with give, suppress(anyio.BrokenResourceError), anyio.move_on_after(_LATEST):
            try:
                give.send_nowait(await upstream.call(VOTING_TOOL, given, caller=caller))
            except Exception as error:  # noqa: BLE001 - raised again where the search still waits
                give.send_nowait(error)

    fleet.background.start_soon(call)
    with take:
        answer = await take.receive()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _vote(row: Any) -> Vote:
    """A vote from a row. `Voters` refuses invalid ones."""
    held = row if isinstance(row, dict) else {}
    return Vote(held.get("tool"), held.get("action"), held.get("reason", ""))  # type: ignore[arg-type]


def _said(result: types.CallToolResult) -> Any:
    if result.structured_content is not None:
        return result.structured_content
    text = "".join(part.text for part in result.content if isinstance(part, types.TextContent))
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
