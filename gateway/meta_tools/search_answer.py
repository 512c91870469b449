"""The answer of `search_tools`: ranked hits as lines, labelled by part of the request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ...catalog import Tool
from ...errors import RequestError
from ...loaders.levels import Level, compact_signature, definition_text, signature
from ...loaders.summaries import Summaries, no_tool_text, shared_summaries
from ...retrieval import Hit, Selection
from ...session.conversation_search import search_intents
from ...text import search_terms
from ...view import View
from .client_search import select_fitting_tools, text_terms
from .meta_tool_definitions import MAX_TOOLS

#: Tools in the answer to a request with one part; tools of all parts together if there are several,
#: and the least number of tools of each of them.
_TOOLS_OF_ONE_PART, _TOOLS_OF_ALL_PARTS, _MIN_TOOLS_OF_PART = 8, 10, 3
#: Most hits that are added because the query names their servers.
_MAX_HITS_OF_NAMED_SERVERS = 4
#: A hit is near, and is shown with its signature, if its score is at least this share of the best
#: score. Most near hits in an answer to one part, and in each of several parts.
_NEAR_SCORE_SHARE, _MAX_NEAR_HITS, _MAX_NEAR_HITS_OF_PART = 0.75, 4, 2
#: Most characters of a near hit's signature, of the arguments of another tool, and of its summary.
_MAX_SIGNATURE_CHARS, _MAX_ARGUMENT_CHARS, _MAX_SHORT_SUMMARY_CHARS = 300, 80, 50
#: Time limit of a search in milliseconds, a hundred times what it takes on an idle machine. Where
#: the encoder takes longer, the tier `fast` answers.
SEARCH_BUDGET_MS = 500.0


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request, and the tools that fit it.

    Args:
        query: its text.
        hits: tools, best first.
        selection: the search for this part.
        part_of: id of a hit that another part ranks better, to the number of that part. Only there
            it is shown with its signature.
    """

    query: str
    hits: tuple[Hit, ...]
    selection: Selection
    part_of: Mapping[str, int] = field(default_factory=dict)


def find_parts(
    view: View,
    arguments: Mapping[str, Any],
    instructions: Mapping[str, str],
    down_servers: Collection[str] = (),
) -> list[RequestPart]:
    """The parts of a request with their tools; one part if it cannot be split.

    Args:
        view: the permitted tools.
        arguments: arguments of `search_tools`.
        instructions: permitted server to its instructions.
        down_servers: servers whose hits come after equally good ones of other servers.

    Raises:
        RequestError: an argument is wrong.
    """
    queries = queries_of(arguments)
    tier, k = arguments.get("tier"), arguments.get("k")
    is_one_query = len(queries) == 1
    if is_one_query:
        intents = search_intents(
            view, queries[0], tier=tier, k=MAX_TOOLS, budget_ms=SEARCH_BUDGET_MS
        )
        queries = [query for query, _ in intents]
        searches = [selection for _, selection in intents]
        if len(queries) == 1:
            # As deep for few tools as for many: with few hits, more words would seem unmatched.
            depth = max(k or 0, _TOOLS_OF_ONE_PART)
            selection = select_fitting_tools(
                view, searches[0], instructions, k=depth, drop_far_hits=k is None
            )
            selection = _down_servers_last(selection, down_servers)
            hits = _with_named_servers(view, queries[0], selection.hits[:k], searches[0], k)
            return [RequestPart(queries[0], hits, selection)]
    else:
        searches = view.search_many(queries, tier=tier, k=MAX_TOOLS, budget_ms=SEARCH_BUDGET_MS)
    if k is None:
        hits_per_part = max(_MIN_TOOLS_OF_PART, -(-_TOOLS_OF_ALL_PARTS // len(queries)))
    elif is_one_query:
        hits_per_part = -(-k // len(queries))  # the parts of one query share its k
    else:
        hits_per_part = max(1, min(k, MAX_TOOLS // len(queries)))
    depth = max(min(2 * hits_per_part, MAX_TOOLS), _TOOLS_OF_ONE_PART)
    selections = [
        _down_servers_last(
            select_fitting_tools(view, search, instructions, k=depth, drop_far_hits=k is None),
            down_servers,
        )
        for search in searches
    ]
    limit = None if k is None else hits_per_part
    hits_by_part = [
        _with_named_servers(view, query, selection.hits[:hits_per_part], search, limit)
        for query, selection, search in zip(queries, selections, searches, strict=True)
    ]
    return _in_best_parts(queries, selections, hits_by_part)


def queries_of(arguments: Mapping[str, Any]) -> list[str]:
    """The texts to search for, from `query` and `queries`.

    Raises:
        RequestError: there is none.
    """
    query = arguments.get("query")
    queries = [*([] if query is None else [query]), *arguments.get("queries", ())]
    # A model that fills in every argument leaves some of them blank.
    queries = [query for query in queries if not isinstance(query, str) or query.strip()]
    if not queries:
        raise RequestError("query: missing or empty; give a query, or queries with one step each")
    return queries


def _down_servers_last(selection: Selection, down_servers: Collection[str]) -> Selection:
    """The selection with each hit of a server that is down behind equally good ones of others.

    A tool that the query names stays first.
    """
    hits = list(selection.hits)
    for hit in selection.hits[::-1]:
        if hit.tool.server not in down_servers or "exact" in hit.stages:
            continue
        place, limit = hits.index(hit), _NEAR_SCORE_SHARE * hit.score
        while place + 1 < len(hits) and hits[place + 1].score >= limit:
            if hits[place + 1].tool.server in down_servers:
                break
            hits[place], hits[place + 1] = hits[place + 1], hit
            place += 1
    return replace(selection, hits=tuple(hits))


def _with_named_servers(
    view: View, query: str, hits: tuple[Hit, ...], search: Selection, limit: int | None
) -> tuple[Hit, ...]:
    """The hits, and behind them the best two of each server that the query names in vain.

    A query that begins with a server, such as `notes: rename a tag`, is for this server: its best
    tools come first, and then the first hit, if that is of another server.

    Args:
        view: the permitted tools.
        query: the query.
        hits: its hits that are shown; if there are none, none is added.
        search: all that was found for it.
        limit: most hits; None for no limit.
    """
    server, colon, _ = query.partition(":")
    own = [hit for hit in search.hits if hit.tool.server == server.strip()] if colon else []
    if own:
        most = len(hits)
        ordered = {hit.id: hit for hit in (*own[: most - 1], *hits[:1], *own)}
        return tuple(ordered.values())[:most]
    named = _servers_named_in_vain(view, query, hits) if hits else []
    further = [
        hit
        for server in named
        for hit in [hit for hit in search.hits if hit.tool.server == server][:2]
    ][:_MAX_HITS_OF_NAMED_SERVERS]
    if limit is None:
        return (*hits, *further)
    further = further[: limit // 2]
    return (*hits[: limit - len(further)], *further)


def _in_best_parts(
    queries: Sequence[str], selections: Sequence[Selection], hits_by_part: Sequence[tuple[Hit, ...]]
) -> list[RequestPart]:
    """The parts with their hits; a tool belongs to the part it fits best."""
    best_places: dict[str, tuple[int, int]] = {}
    for number, hits in enumerate(hits_by_part, 1):
        for place, hit in enumerate(hits):
            best_places[hit.id] = min((place, number), best_places.get(hit.id, (place, number)))
    parts = []
    for number, (query, selection, hits) in enumerate(
        zip(queries, selections, hits_by_part, strict=True), 1
    ):
        best_parts = {hit.id: best_places[hit.id][1] for hit in hits}
        part_of = {tool_id: part for tool_id, part in best_parts.items() if part != number}
        parts.append(RequestPart(query, hits, selection, part_of))
    return parts


def search_content(
    view: View,
    parts: Sequence[RequestPart],
    detail: str | None,
    down_servers: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """The answer as an object: tools, best first in each part, and notes about them.

    It has no scores. They would also depend on tools that the client may not see.

    Args:
        view: the permitted tools.
        parts: the parts of the request.
        detail: level of detail of every tool; None for a signature of each near hit, and a short
            line with the arguments for the others.
        down_servers: server that is down, to its state, with which its tools are marked.
    """
    summaries = shared_summaries(view.admission.index.summaries)
    level_shown = None if detail is None else Level[detail.upper()]
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for number, part in enumerate(parts, 1):
        label = {"part": number} if len(parts) > 1 else {}
        near = near_ids(part.hits, _MAX_NEAR_HITS if len(parts) == 1 else _MAX_NEAR_HITS_OF_PART)
        for hit in part.hits:
            if hit.id in part.part_of:
                rows.append({"name": hit.id, **label, "shown_in_part": part.part_of[hit.id]})
                continue
            level = level_shown or (Level.SIGNATURE if hit.id in near else Level.ARGUMENTS)
            fields = tool_fields(hit.tool, level, summaries, is_short=detail is None)
            if (state := down_servers.get(hit.tool.server or "")) is not None:
                fields["server_state"] = state
            rows.append({"name": hit.id, **label, **fields})
        if not part.selection.hits:
            nearest = [hit.tool for hit in part.selection.nearest]
            query = part.query if len(parts) > 1 else None
            notes.append(no_tool_text(nearest, summaries, query))
        notes += [
            f"No tool above is of {server}: search with server={server}."
            for server in _servers_named_in_vain(view, part.query, part.hits)
        ]
    labels = {"parts": [part.query for part in parts]} if len(parts) > 1 else {}
    return {**labels, "tools": rows, "notes": notes}


def search_text(
    content: Mapping[str, Any], entry_blocks: Sequence[str] = (), *, notes_above: int = 0
) -> str:
    """The answer as text, the same as `search_content` gives.

    Args:
        content: the answer as an object.
        entry_blocks: text of its prompts and resources.
        notes_above: how many notes stand above the tools; the others stand at the end.
    """
    notes = content["notes"]
    blocks: list[str] = list(notes[:notes_above])
    for number, label in enumerate(content.get("parts", [""]), 1):
        rows = [row for row in content["tools"] if row.get("part", 1) == number]
        # One list, best first: grouped by server, nobody could tell which tool was the best.
        lines = [f"{rank}. {_line(row)}" for rank, row in enumerate(rows, 1)]
        if lines:
            blocks.append("\n".join([f"For: {label}", *lines] if label else lines))
    return "\n\n".join([*blocks, *entry_blocks, *notes[notes_above:]])


def _line(row: Mapping[str, Any]) -> str:
    if "shown_in_part" in row:
        return f"{row['name']} ({'above' if row['shown_in_part'] < row['part'] else 'below'})"
    mark = f" [server: {row['server_state']}]" if "server_state" in row else ""
    if "definition" in row:
        return f"{row['definition']}{mark}"
    description = f": {row['description']}" if "description" in row else ""
    return f"{row['name']}{row.get('signature', '')}{description}{mark}"


def level_read(tool: Tool, fields: Mapping[str, Any]) -> Level:
    """How much of a tool the fields of `tool_fields` or `definition_fields` say."""
    if "definition" in fields or "input_schema" in fields:
        return Level.FULL
    if "signature" not in fields:
        return Level.SUMMARY if "description" in fields else Level.NAME
    return Level.SIGNATURE if fields["signature"] == signature(tool) else Level.ARGUMENTS


def tool_fields(
    tool: Tool, level: Level, summaries: Summaries, *, is_short: bool = False
) -> dict[str, str]:
    """A tool at a level, without its name.

    Args:
        tool: the tool.
        level: how much is shown.
        summaries: summaries of the tools.
        is_short: whether a signature has at most 300 characters, arguments 80, and the summary
            beside arguments 50.
    """
    if level is Level.NAME:
        return {}
    if level is Level.FULL:
        return {"definition": definition_text(tool.id, tool.description, tool.input_schema)}
    summary = summaries.of(tool)
    if level is Level.SUMMARY:
        return {"description": summary}
    if level is Level.SIGNATURE:
        text = short_signature(tool) if is_short else signature(tool)
        return {"signature": text, "description": summary}
    arguments = _short_arguments(tool) if is_short else compact_signature(tool)
    if is_short and len(summary) > _MAX_SHORT_SUMMARY_CHARS:
        summary = f"{summary[:_MAX_SHORT_SUMMARY_CHARS].rpartition(' ')[0]}..."
    return ({"signature": arguments} if arguments else {}) | {"description": summary}


def short_signature(tool: Tool) -> str:
    """The signature in at most 300 characters. If it is longer, optional arguments have no types.

    A cut one ends in `...`: `get_tool_details` has the rest.
    """
    for text in (signature(tool), compact_signature(tool)):
        if len(text) <= _MAX_SIGNATURE_CHARS:
            return text
    return f"{text[: _MAX_SIGNATURE_CHARS - 4].rpartition(' ')[0]} ...)"


def _short_arguments(tool: Tool) -> str:
    """The arguments in at most 80 characters; empty if they need more."""
    text = compact_signature(tool)
    return text if len(text) <= _MAX_ARGUMENT_CHARS else ""


def near_ids(hits: Sequence[Hit], max_hits: int) -> frozenset[str]:
    """Ids of those of the first `max_hits` hits whose scores are near the best one."""
    limit = _NEAR_SCORE_SHARE * max((hit.score for hit in hits), default=0.0)
    return frozenset(hit.id for hit in hits[:max_hits] if hit is hits[0] or hit.score >= limit)


def matches_poorly(part: RequestPart) -> bool:
    """Whether the hits of a part lack most words of its query: another server may have them."""
    hit_terms = _terms_of_hits(part.hits)
    query_terms = frozenset(search_terms(part.query))
    return 2 * len(query_terms - hit_terms) > len(query_terms) or not part.hits


def _servers_named_in_vain(view: View, query: str, hits: Sequence[Hit]) -> list[str]:
    """Servers that the query names though no hit is of them, or has all words of the name."""
    query_terms = frozenset(search_terms(query))
    hit_servers = {hit.tool.server for hit in hits}
    hit_terms = _terms_of_hits(hits)
    return [
        server
        for server in view.catalog.servers
        if server not in hit_servers
        and (name_terms := frozenset(search_terms(server)))
        and name_terms <= query_terms
        and not name_terms <= hit_terms
        and view.tools(server)
    ]


def _terms_of_hits(hits: Sequence[Hit]) -> frozenset[str]:
    return frozenset[str]().union(*(_id_and_text_terms(hit.tool) for hit in hits))


@lru_cache(4_096)
def _id_and_text_terms(tool: Tool) -> frozenset[str]:
    return text_terms(tool).union(search_terms(tool.id))
