"""A client's search: the view's search, with the servers' instructions and votes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import anyio
import mcp.types as types
from pydantic import TypeAdapter

from ...catalog import Catalog, Tool
from ...catalog.pattern import any_grants
from ...catalog.tool_document import embedding_text
from ...gating import Votes
from ...gating.votes import VOTING_TOOL, Ballot, Vote, Voters
from ...retrieval import Hit, Selection
from ...text import search_terms
from ...view import View
from ..profiles.client_sessions import ClientCaller
from ..profiles.profile import Profile
from ..upstream.call import CheckedRequest
from ..upstream.fleet import Fleet
from ..upstream.server_connection import ServerState, UpstreamError
from .meta_tool_definitions import ToolEffect, effect_of

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$", re.MULTILINE)


def first_sentence(text: str, max_chars: int = 160) -> str:
    """The first sentence of instructions, on one line; cut after a word if it is long.

    Headings are no sentences.
    """
    line = " ".join(_SENTENCE.split(_HEADING.sub("", text).strip(), maxsplit=1)[0].split())
    return line if len(line) <= max_chars else f"{line[:max_chars].rpartition(' ')[0]}..."


def servers_by_instructions(
    query: str, instructions: Mapping[str, str], hits: Iterable[Tool]
) -> list[tuple[str, int]]:
    """Servers whose instructions contain words of a query that no hit contains.

    Args:
        query: text to search for.
        instructions: server to its instructions.
        hits: the tools found. Their words are not counted.

    Returns:
        Server and number of words, most words first.
    """
    only_server = _servers_of_unique_words(tuple(instructions.items()))
    words = only_server.keys() & search_terms(query)
    if words:
        words = words.difference(*map(text_terms, hits))
    counts = Counter(only_server[word] for word in words)
    return sorted(counts.items(), key=lambda server_count: (-server_count[1], server_count[0]))


@lru_cache(16)
def _servers_of_unique_words(instructions: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Each word that only one server has in its instructions, to that server."""
    terms = {server: frozenset(search_terms(text)) for server, text in instructions}
    counts = Counter(word for server_terms in terms.values() for word in server_terms)
    return {
        word: server
        for server, server_terms in terms.items()
        for word in server_terms
        if counts[word] == 1
    }


@lru_cache(4_096)
def text_terms(tool: Tool) -> frozenset[str]:
    """The search terms of what a tool says of itself, without its id."""
    return frozenset(search_terms(embedding_text(tool)))


#: Most tools added for a server that only matched by its instructions.
_MAX_ADDED_TOOLS = 2
#: Words that query and instructions must share if the search abstained; otherwise one is enough.
_MIN_WORDS_IF_ABSTAINED = 2
#: A hit is far from the best one if its score is below this share of the best score. The first two
#: are never far. On 484 development queries over 3,926 tools, 401 answers have a right tool instead
#: of 405 with a share of 0.6 after the first five, with 14 % fewer characters.
_NEAR_SHARE, _HITS_NEVER_FAR = 0.7, 2


def select_fitting_tools(
    view: View,
    selection: Selection,
    instructions: Mapping[str, str],
    *,
    k: int,
    drop_far_hits: bool = False,
) -> Selection:
    """The answer to a client's query: the best tools of its search, or none if no tool fits.

    If words of the query are only in the instructions of one server, and in no hit, the best two
    tools of this server are added at the end. They replace the last hits if there are `k` of them.

    Args:
        view: the permitted tools.
        selection: the view's search for the query.
        instructions: permitted server to its instructions.
        k: most tools; more than two.
        drop_far_hits: whether hits far below the best one are left out, after the first two.

    Raises:
        RequestError: an argument is wrong.
    """
    query, selection = selection.query, view.judged(selection, k)
    if drop_far_hits:
        limit = _NEAR_SHARE * max((hit.score for hit in selection.hits), default=0.0)
        hits = (hit for hit in selection.hits if hit.rank <= _HITS_NEVER_FAR or hit.score >= limit)
        selection = replace(selection, hits=tuple(hits))
    hit_tools = (hit.tool for hit in selection.hits)
    hit_servers = {hit.tool.server for hit in selection.hits}
    min_words = _MIN_WORDS_IF_ABSTAINED if selection.abstained else 1
    matching_servers = [
        server
        for server, word_count in servers_by_instructions(query, instructions, hit_tools)
        if word_count >= min_words and server not in hit_servers
    ]
    if not matching_servers:
        return selection
    best_server = matching_servers[0]
    tools = view.tools(best_server)
    tool_ids = (tool.id for tool in tools)
    added = view.search_among(tool_ids, selection, k=_MAX_ADDED_TOOLS).hits_and_dropped
    if not added:
        added = tuple(Hit(tool, rank=0, score=0.0, stages={}) for tool in tools[:_MAX_ADDED_TOOLS])
    first_hits = selection.hits[: k - len(added)]
    max_score = first_hits[-1].score if first_hits else added[0].score
    last_hits = tuple(
        hit._replace(rank=rank, score=min(hit.score, max_score))
        for rank, hit in enumerate(added, len(first_hits) + 1)
    )
    return replace(selection, hits=(*first_hits, *last_hits), abstained=False, reason=None)


#: Seconds after which a late vote is cancelled.
_VOTE_TIMEOUT_S = 5.0
_CallAnswer = types.CallToolResult | types.InputRequiredResult
_VOTE_ANSWER: TypeAdapter[Any] = TypeAdapter(_CallAnswer)


@dataclass(frozen=True, slots=True)
class CollectedVotes:
    """The votes of servers about their own tools, for one search.

    Args:
        votes: the valid votes.
        claim_arguments: server and name of a claimed tool to the arguments for a call without the
            model. Only claims that may be called so are in it.
    """

    votes: Votes = field(default_factory=Votes)
    claim_arguments: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def claimed_call(self, view: View) -> tuple[Tool, Mapping[str, Any]] | None:
        """The claimed tool to call without the model, and its arguments; None if there is none.

        It must be permitted and annotated as read-only, because clients expect that a search
        changes nothing.

        Args:
            view: a view with these votes.
        """
        for row in view.admission.claimed_rows[:1]:
            tool = view.admission.tools[row]
            arguments = self.claim_arguments.get((tool.server or "", tool.name))
            if arguments is not None and effect_of(tool.annotations) is ToolEffect.READ:
                return tool, arguments
        return None


async def collect_votes(
    fleet: Fleet, caller: ClientCaller, query: str, catalog: Catalog
) -> CollectedVotes:
    """Ask the servers for their votes about a query.

    Servers are asked if they run, have the tool, and may vote by the profile. All are asked in
    parallel, for at most 50 ms. Late and invalid answers are ignored.

    Args:
        fleet: the servers.
        caller: the client's request. The client gets the servers' messages, and its profile has
            the servers that may vote and claim.
        query: text to search for; the asked servers get it.
        catalog: the catalog version of the search.
    """
    profile = caller.client.profile
    voting_servers = [
        name
        for name in sorted(fleet.listed_tools.voting_servers)
        if _may_vote(fleet, profile, name)
    ]
    if not voting_servers:
        return CollectedVotes()
    claim_arguments: dict[tuple[str, str], Mapping[str, Any]] = {}
    voters = Voters(
        {name: partial(_server_votes, fleet, caller, claim_arguments) for name in voting_servers},
        trusted=[name for name in voting_servers if any_grants(name, profile.vote_claims)],
    )
    votes = await voters.collect(query, catalog)
    callable_claims = {
        (server, tool): arguments
        for (server, tool), arguments in claim_arguments.items()
        if any_grants(server, profile.vote_calls)
    }
    return CollectedVotes(votes, callable_claims)


def _may_vote(fleet: Fleet, profile: Profile, server: str) -> bool:
    return (
        server in fleet.listed_tools.voting_servers
        and any_grants(server, profile.vote_servers)
        and profile.matches_server(server)
        and server in fleet.upstreams
        and fleet.upstreams[server].state is ServerState.STARTED
    )


async def _server_votes(
    fleet: Fleet,
    caller: ClientCaller,
    claim_arguments: dict[tuple[str, str], Mapping[str, Any]],
    ballot: Ballot,
) -> Iterable[Vote]:
    """The votes of the ballot's server. Adds the arguments in its answer to `claim_arguments`."""
    arguments = {"query": ballot.query, "tools": list(ballot.tools)}
    params = types.CallToolRequestParams(name=VOTING_TOOL, arguments=arguments)

    def check() -> None:
        if not _may_vote(fleet, caller.client.profile, ballot.server):
            raise UpstreamError(f"server {ballot.server!r}: it may not vote any more")

    call: CheckedRequest[types.CallToolResult] = CheckedRequest(
        # Each vote has its own time limit.
        ClientCaller(caller.context, caller.client),
        ballot.server,
        types.CallToolRequest(params=params),
        check,
        _VOTE_ANSWER,
        reads_only=False,
    )
    result = await _answer_unless_late(fleet, call)
    if not isinstance(result, types.CallToolResult) or result.is_error:
        raise UpstreamError(f"server {ballot.server!r}: its vote failed")
    value = _result_value(result)
    rows = value.get("votes") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        raise UpstreamError(f"server {ballot.server!r}: its answer has no list `votes`")
    rows = rows[: 2 * len(ballot.tools) + 1]
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("arguments"), dict):
            claim_arguments[ballot.server, str(row.get("tool"))] = row["arguments"]
    return [_vote(row) for row in rows]


async def _answer_unless_late(
    fleet: Fleet, call: CheckedRequest[types.CallToolResult]
) -> _CallAnswer:
    """The server's answer.

    A vote that comes too late for the search is not cancelled. A cancelled call would be a possible
    cause of the server's questions until the gateway connects again.
    """
    sender, receiver = anyio.create_memory_object_stream[_CallAnswer | Exception](1)

    async def vote() -> None:
        # Not a time limit of the call: the server is restarted after some calls that exceed theirs.
        with sender, suppress(anyio.BrokenResourceError), anyio.move_on_after(_VOTE_TIMEOUT_S):
            try:
                sender.send_nowait(await fleet.send(call))
            except Exception as error:  # noqa: BLE001 - raised again where the search still waits
                sender.send_nowait(error)

    fleet.background.start_soon(vote)
    with receiver:
        answer = await receiver.receive()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _vote(row: Any) -> Vote:
    """A vote from a row. `Voters` refuses invalid ones."""
    fields = row if isinstance(row, dict) else {}
    return Vote(fields.get("tool"), fields.get("action"), fields.get("reason", ""))  # type: ignore[arg-type]


def _result_value(result: types.CallToolResult) -> Any:
    if result.structured_content is not None:
        return result.structured_content
    text = "".join(part.text for part in result.content if isinstance(part, types.TextContent))
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
