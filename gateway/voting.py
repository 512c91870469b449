"""Asks servers which of their tools fit a request, by the tool `_tool_gating` they offer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import mcp.types as types

from ..catalog import Catalog
from ..gating import Votes
from ..gating.votes import VOTING_TOOL, Ballot, Vote, Voters
from .fleet import Fleet
from .profile import Profile, matches
from .upstream import State, UpstreamError


async def collect_votes(fleet: Fleet, profile: Profile, query: str, catalog: Catalog) -> Votes:
    """What the servers say of their own tools for a request.

    Only servers that run, offer the tool and are allowed to by the profile are asked, all at once,
    for at most 50 ms. One that does not answer, or answers nonsense, says nothing.

    Args:
        fleet: the servers.
        profile: says who may vote and whose claims count.
        query: the request; each of these servers reads it.
        catalog: the version that answers.
    """
    asked = [
        name
        for name in sorted(fleet.voters)
        if matches(name, profile.asked)
        and profile.names_server(name)
        and name in fleet.upstreams
        and fleet.upstreams[name].state is State.STARTED
    ]
    if not asked:
        return Votes()
    voters = Voters(
        {name: partial(_votes, fleet) for name in asked},
        trusted=[name for name in asked if matches(name, profile.trusted)],
    )
    return await voters.collect(query, catalog)


async def _votes(fleet: Fleet, ballot: Ballot) -> Iterable[Vote]:
    given = {"query": ballot.query, "tools": list(ballot.tools)}
    result = await fleet.upstreams[ballot.server].call(VOTING_TOOL, given)
    if result.is_error:
        raise UpstreamError(f"server {ballot.server!r}: its vote failed")
    said = _said(result)
    rows = said.get("votes") if isinstance(said, dict) else None
    if not isinstance(rows, list):
        raise UpstreamError(f"server {ballot.server!r}: its vote has no list `votes`")
    return [_vote(row) for row in rows[: 2 * len(ballot.tools) + 1]]


def _vote(row: Any) -> Vote:
    """A row as a vote; `Voters` refuses what is none."""
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
