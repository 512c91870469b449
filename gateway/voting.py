"""Asks servers which of their tools fit a request, by the tool `_tool_gating` they offer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Said:
    """What servers say of their own tools for one search.

    Args:
        votes: as counted.
        arguments: server and tool to the arguments of a claim, from servers whose claims may be
            called without the model.
    """

    votes: Votes = field(default_factory=Votes)
    arguments: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def claimed(self, view: View) -> tuple[Tool, Mapping[str, Any]] | None:
        """The claimed tool that is called without the model, and its arguments.

        Only a permitted tool that says that it only reads is called so: clients take a search for
        something that changes nothing.

        Args:
            view: made with these votes.
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
    """What the servers say of their own tools for a request.

    Only servers that run, offer the tool and are allowed to by the profile are asked, all at once,
    for at most 50 ms. One that does not answer, or answers nonsense, says nothing.

    Args:
        fleet: the servers.
        profile: says who may vote and whose claims count.
        query: the request; each of these servers reads it.
        catalog: the version that answers.
        caller: whose search it is, for what the servers say meanwhile.
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
    given = {"query": ballot.query, "tools": list(ballot.tools)}
    result = await fleet.upstreams[ballot.server].call(VOTING_TOOL, given, caller=caller)
    if not isinstance(result, types.CallToolResult) or result.is_error:
        raise UpstreamError(f"server {ballot.server!r}: its vote failed")
    said = _said(result)
    rows = said.get("votes") if isinstance(said, dict) else None
    if not isinstance(rows, list):
        raise UpstreamError(f"server {ballot.server!r}: its vote has no list `votes`")
    rows = rows[: 2 * len(ballot.tools) + 1]
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("arguments"), dict):
            arguments[ballot.server, str(row.get("tool"))] = row["arguments"]
    return [_vote(row) for row in rows]


def _vote(row: Any) -> Vote:
    """A row as a vote. `Voters` refuses invalid ones."""
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
