"""The answers of the meta-tools to one client, within its permissions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mcp.types as types

from ...catalog import Tool
from ...errors import RequestError, UnknownToolError
from ...gating import Refusal
from ...loaders.counting import bundled_counter
from ...loaders.levels import Level, signature
from ...loaders.summaries import Summaries, shared_summaries
from ...loaders.topics import MAX_TOPICS, topics
from ...text import search_terms
from ...view import View
from ..observe.call_recorder import SearchOutcome
from ..profiles.client_sessions import ClientSession
from ..profiles.profile import CALL_TOOL, READ_TOOL
from ..relay.other_kinds import Entry, OtherKinds, entry_fields
from ..upstream.fleet import Fleet, entry_problem
from ..upstream.safe_texts import safe_instructions
from ..upstream.server_connection import ServerState, Upstream
from .client_search import first_sentence
from .kinds_answer import better_kinds_note, entry_blocks, entry_rows, find_entries
from .meta_tool_definitions import (
    MAX_DIGEST_TOKENS,
    TOOL_KIND,
)
from .search_answer import (
    RequestPart,
    find_parts,
    level_read,
    matches_poorly,
    queries_of,
    search_content,
    search_text,
    tool_fields,
)

#: Tokens of definitions in one answer.
MAX_DETAILS_TOKENS = 8_000
_NO_ENTRY_NOTE = "The servers offer nothing of these kinds that fits."
#: Most servers that a search names because they are not available, and most tools of one server
#: that `list_servers` names.
_MAX_UNREADY_SERVERS, _MAX_TOOL_NAMES = 6, 100


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The answer of `search_tools`, and what the observer records of it."""

    result: types.CallToolResult
    outcome: SearchOutcome


def answer_search_tools(
    fleet: Fleet, client: ClientSession, arguments: Mapping[str, Any], others: OtherKinds
) -> SearchAnswer:
    """The answer of `search_tools`.

    Args:
        fleet: the servers.
        client: session of the client.
        arguments: arguments of the call.
        others: prompts and resources of the servers.

    Raises:
        RequestError: an argument is wrong.
    """
    permitted = view = client.view()
    unready = unready_servers(fleet, client, permitted)
    server = arguments.get("server")
    if server in unready:
        note = unready_line({server: _state_and_reason(fleet, server, unready[server])})
        content: dict[str, Any] = {"tools": [], "notes": [note]}
        outcome = SearchOutcome(tier="none", starting=len(fleet.unlisted_servers))
        return SearchAnswer(result=_answer(search_text(content), content), outcome=outcome)
    kinds = arguments.get("kinds") or [TOOL_KIND]
    entry_views = others.views(client, server)
    asked_views = {kind: entry_views[kind] for kind in entry_views if kind in kinds}
    if server is not None:
        ids = [tool.id for tool in view.tools(server)]
        if not ids and not asked_views:
            names = sorted({*(tool.server or "" for tool in view.tools()), *unready})
            raise RequestError(f"server: no {server!r:.80}; use one of: {', '.join(names)}")
        view = view.limited_to(ids)
    queries = queries_of(arguments)
    found = find_entries(asked_views, queries, arguments.get("k"), arguments.get("tier"))
    rows = entry_rows(asked_views, found.hits_by_kind)
    entries = {"entries": rows} if kinds != [TOOL_KIND] else {}
    blocks = entry_blocks(rows, call_tool_for_reads(client))
    if TOOL_KIND not in kinds:
        notes = [] if rows else [_NO_ENTRY_NOTE]
        content = {"tools": [], **entries, "notes": notes}
        if unready:
            notes.append(unready_line(unready))
        outcome = SearchOutcome(
            tier=found.tier, found=found.hits, starting=len(fleet.unlisted_servers)
        )
        return SearchAnswer(result=_answer(search_text(content, blocks), content), outcome=outcome)
    down = fleet.down_servers()
    parts = find_parts(view, arguments, permitted_instructions(fleet, view), down)
    content = search_content(view, parts, arguments.get("detail"), down)
    shown = [row for row in content["tools"] if "shown_in_part" not in row]
    tools = [view.catalog.get(row["name"]) for row in shown]
    client.note_read((tool, level_read(tool, row)) for tool, row in zip(tools, shown, strict=True))
    hits = list({hit.id: hit for part in parts for hit in part.hits}.values())
    concerned = {} if server is not None else unready
    named = _reasons_of_named(fleet, concerned, queries)
    content["notes"] += _server_notes(fleet, concerned, named, parts)
    quarantined = client.profile_views.quarantined_ids(permitted)
    hit_servers = {hit.tool.server or "" for hit in hits}
    # It may be what the client looks for: its server has hits, or the hits lack most words.
    if any(tool_id.partition("/")[0] in hit_servers for tool_id in quarantined) or (
        quarantined and any(map(matches_poorly, parts))
    ):
        content["notes"].append(_waiting_line(quarantined))
    selection = parts[0].selection
    if arguments.get("explain"):
        content["tier"], content["tier_reason"] = selection.tier, selection.tier_reason
        content["pending"], content["fits"] = selection.pending, selection.fits
    if "kinds" not in arguments and (
        note := better_kinds_note(entry_views, [part.selection for part in parts])
    ):
        content["notes"].append(note)
    content |= entries
    if named:
        content["notes"].insert(0, unready_line(named))
    outcome = SearchOutcome(
        tier=selection.tier,
        found=(*hits, *found.hits),
        abstained=all(part.selection.abstained for part in parts),
        reason=selection.reason if selection.abstained else None,
        starting=sum(state == "starting" for state in unready.values()),
        quarantined=len(quarantined),
    )
    # What other servers have comes after a server that the query means.
    text = search_text(content, blocks, notes_above=1 if named else 0)
    return SearchAnswer(result=_answer(text, content), outcome=outcome)


def call_tool_for_reads(client: ClientSession) -> str:
    """The meta-tool that calls tools which only read."""
    listed = () if client.tool_listing is None else client.tool_listing.meta_tools
    return READ_TOOL if any(tool.name == READ_TOOL for tool in listed) else CALL_TOOL


def unready_servers(fleet: Fleet, client: ClientSession, view: View) -> dict[str, str]:
    """Permitted servers whose tools are not known, because they start or failed.

    Args:
        fleet: the servers.
        client: session of the client.
        view: its permitted tools.

    Returns:
        Server to its state, a fixed text.
    """
    known_servers = frozenset(view.catalog.servers)
    states = {
        **dict.fromkeys(fleet.unlisted_servers, "starting"),
        **_failed_servers(fleet),
        **dict.fromkeys(fleet.unusable_servers, "not usable"),
    }
    return {
        name: state
        for name, state in states.items()
        if name not in known_servers and client.profile_views.permits_server(name, view)
    }


def unready_reasons(fleet: Fleet, client: ClientSession, view: View) -> dict[str, str]:
    """Each server of `unready_servers` to its state with the reason, in texts for models."""
    unready = unready_servers(fleet, client, view)
    return {name: _state_and_reason(fleet, name, state) for name, state in unready.items()}


def _failed_servers(fleet: Fleet) -> dict[str, str]:
    """Server that does not run because of a problem, to a fixed text with the problem's code."""
    failed: dict[str, str] = {}
    for name, upstream in fleet.upstreams.items():
        if upstream.state in (ServerState.FAILED, ServerState.AWAITING_CONSENT):
            texts = dict.fromkeys((upstream.state.value, upstream.problem_code))
            failed[name] = ", ".join(text for text in texts if text)
    return failed


def _waiting_line(quarantined: Sequence[str]) -> str:
    """A line about quarantined tools, by their servers: their names are not shown."""
    servers = sorted({tool_id.partition("/")[0] for tool_id in quarantined})
    shown = ", ".join(servers[:_MAX_UNREADY_SERVERS])
    more = " and others" if len(servers) > _MAX_UNREADY_SERVERS else ""
    waiting = "1 tool" if len(quarantined) == 1 else f"{len(quarantined)} tools"
    verb = "waits" if len(quarantined) == 1 else "wait"
    return f"{waiting} of {shown}{more} {verb} for the operator's approval (shortlist trust diff)."


def _reasons_of_named(
    fleet: Fleet, unready: Mapping[str, str], queries: Sequence[str]
) -> dict[str, str]:
    """The unready servers whose names share a word with a query, to state and reason."""
    query_terms = frozenset(search_terms(" ".join(queries)))
    return {
        name: _state_and_reason(fleet, name, state)
        for name, state in unready.items()
        if not query_terms.isdisjoint(search_terms(name))
    }


def _server_notes(
    fleet: Fleet,
    unready: Mapping[str, str],
    named: Collection[str],
    parts: Sequence[RequestPart],
) -> Iterator[str]:
    """Notes about servers that do not run and may concern a search, though no query names them.

    These are the servers of its hits, and those that start. If the hits lack most words of a query,
    any server may have them.

    Args:
        fleet: the servers.
        unready: permitted server whose tools are not known, to its state.
        named: those of them that a query names.
        parts: the parts of the request.
    """
    hit_servers = {hit.tool.server or "" for part in parts for hit in part.hits}
    may_concern_all = any(matches_poorly(part) for part in parts)
    failed = {name: text for name, text in _failed_servers(fleet).items() if name in hit_servers}
    ended = [name for name in failed if fleet.upstreams[name].starts_with_next_call]
    if ended:
        yield f"Ended, and a call starts it again: {', '.join(ended)}."
    reasons = {
        name: _state_and_reason(fleet, name, text)
        for name, text in failed.items()
        if name not in ended
    }
    others = {
        name: state
        for name, state in unready.items()
        if name not in named and name not in reasons and (state == "starting" or may_concern_all)
    }
    if reasons or others:
        yield unready_line(reasons | others)


def unready_line(unready: Mapping[str, str]) -> str:
    """A line about servers that cannot be used now.

    Args:
        unready: server to its state.
    """
    names_by_state: dict[str, list[str]] = {}
    for name, state in list(unready.items())[:_MAX_UNREADY_SERVERS]:
        names_by_state.setdefault(state, []).append(name)
    shown = [f"{', '.join(names)} ({state})" for state, names in names_by_state.items()]
    more = len(unready) - _MAX_UNREADY_SERVERS
    return f"Not available now: {', '.join(shown)}" + (f" and {more} more." if more > 0 else ".")


def _state_and_reason(fleet: Fleet, server: str, state: str) -> str:
    """The state of a server, and the sentence for models about its problem if it has one."""
    if server in fleet.unusable_servers:
        return f"{state}: {entry_problem(fleet.unusable_servers[server])}"
    upstream = fleet.upstreams.get(server)
    sentence = None if upstream is None else upstream.problem_sentence
    if upstream is None or sentence is None:
        return state
    return f"{state}: {sentence.removeprefix(f'{upstream.problem_code}: ')}"


def answer_details(
    fleet: Fleet,
    client: ClientSession,
    arguments: Mapping[str, Any],
    others: OtherKinds,
    stubs: Callable[[View, Iterable[Tool]], str] | None = None,
) -> types.CallToolResult:
    """The answer of `get_tool_details`, within `MAX_DETAILS_TOKENS`.

    Args:
        fleet: the servers.
        client: session of the client.
        arguments: arguments of the call.
        others: prompts and resources of the servers.
        stubs: writes Python stubs of tools; None for call signatures.
    """
    view, detail = client.view(), arguments.get("detail", "full")
    summaries = shared_summaries(view.admission.index.summaries)
    names = arguments["names"]
    tool_ids = [client.tool_id(name, view) for name in names]
    outcomes: list[tuple[str, Tool | Entry | Refusal | UnknownToolError]] = [
        (name, others.details(client, name) if others.is_name(name) else outcome)
        for name, outcome in zip(names, view.details(tool_ids), strict=True)
    ]
    if stubs is not None and detail == "signature":
        return _stubs(view, outcomes, stubs)
    remaining, rows = MAX_DETAILS_TOKENS, []
    read: list[tuple[Tool, Level]] = []
    for name, outcome in outcomes:
        if isinstance(outcome, Refusal | UnknownToolError):
            row = _error_row(name, outcome)
            if (server := named_unready_server(fleet, client, name)) is not None:
                state = unready_servers(fleet, client, view)[server]
                reason = _state_and_reason(fleet, server, state)
                row = {"name": name, "error": unready_line({server: reason})}
            rows.append(row)
            continue
        if isinstance(outcome, Entry):
            row = {"name": outcome.tool.id, **entry_fields(outcome)}
            if (cost := _json_tokens(row)) > remaining:
                row = {"name": outcome.tool.id, "kind": str(outcome.kind)}
                row["shortened"] = "ask for this one alone to see its description"
                cost = _json_tokens(row)
            remaining -= cost
            rows.append(row)
            continue
        tool = outcome
        row = {"name": tool.id, **definition_fields(tool, detail, summaries)}
        cost = _json_tokens(row)
        if cost > remaining:
            row = {"name": tool.id, "signature": signature(tool)[:4_000]}
            row["shortened"] = "ask for this tool alone to see its definition"
            cost = _json_tokens(row)
        remaining -= cost
        rows.append(row)
        read.append((tool, level_read(tool, row)))
    client.note_read(read)
    content = {"tools": rows}
    return _answer(json.dumps(content, ensure_ascii=False), content)


def _json_tokens(row: Mapping[str, Any]) -> int:
    return bundled_counter().count(json.dumps(row, ensure_ascii=False))


def _error_row(name: str, error: Refusal | UnknownToolError) -> dict[str, Any]:
    """The text in place of a definition: why there is none."""
    if isinstance(error, UnknownToolError):
        return {"name": name, "error": "unknown", "nearest": list(error.nearest)}
    return {
        "name": name,
        "error": "denied",
        "code": error.detail.get("code", error.kind),
        "reason": error.reason,
        "unlocked_by": list(error.unlocked_by),
    }


def _stubs(
    view: View,
    outcomes: list[tuple[str, Tool | Entry | Refusal | UnknownToolError]],
    stubs: Callable[[View, Iterable[Tool]], str],
) -> types.CallToolResult:
    """The stubs of all tools in one text with shared types, then a line for each missing tool."""
    tools = [outcome for _, outcome in outcomes if isinstance(outcome, Tool)]
    missing = [
        _error_row(name, outcome)
        for name, outcome in outcomes
        if isinstance(outcome, Refusal | UnknownToolError)
    ]
    missing += [
        {"name": name, **entry_fields(outcome)}
        for name, outcome in outcomes
        if isinstance(outcome, Entry)
    ]
    text, stub_count = stubs(view, tools), len(tools)
    while stub_count > 1 and bundled_counter().count(text) > MAX_DETAILS_TOKENS:
        stub_count -= 1
        text = stubs(view, tools[:stub_count])
    missing += [
        {"name": tool.id, "error": "left out", "reason": "too long together; ask for it alone"}
        for tool in tools[stub_count:]
    ]
    parts = [text, json.dumps(missing, ensure_ascii=False) if missing else ""]
    return _answer("\n\n".join(filter(None, parts)), {"stubs": text, "missing": missing})


def named_unready_server(fleet: Fleet, client: ClientSession, name: str) -> str | None:
    """The server in the name of a tool, if its tools are not known because it starts or failed.

    Args:
        fleet: the servers.
        client: session of the client.
        name: the client's name of a tool.
    """
    prefixes = {name.partition(separator)[0] for separator in ("/", "__") if separator in name}
    configured = fleet.upstreams.keys() | fleet.unusable_servers.keys()
    if (prefixes & configured) <= set(fleet.engine.catalog.servers):
        return None
    unready = unready_servers(fleet, client, client.view())
    return next((server for server in unready if server in prefixes), None)


def answer_servers(
    fleet: Fleet, client: ClientSession, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """The answer of `list_servers`: a line for each server, or all about one server.

    Raises:
        RequestError: there is no server of this name.
    """
    view, name = client.view(), arguments.get("server")
    rows = list(server_rows(fleet, client, view))
    if name is None:
        shown = [{key: row[key] for key in row if key != "instructions"} for row in rows]
        lines = [_server_line(row) for row in shown]
        return _answer("\n".join(lines) or "No server may be used.", {"servers": shown})
    named = [row for row in rows if row["name"] == name]
    if not named:
        names = ", ".join(row["name"] for row in rows)
        raise RequestError(f"server: no {name!r:.80}; use one of: {names}")
    tool_names = [tool.name for tool in view.tools(name)]
    row = {**named[0], "tool_names": tool_names[:_MAX_TOOL_NAMES]}
    said = f"{name} says: {row['instructions']}" if "instructions" in row else ""
    lines = [_server_line(row), said, ", ".join(row["tool_names"])]
    return _answer("\n".join(filter(None, lines)), {"servers": [row]})


def _server_line(row: Mapping[str, Any]) -> str:
    words = [row["problem"] if "problem" in row else row["state"]]
    tools = "1 tool" if row["tools"] == 1 else f"{row['tools']} tools"
    words += [tools if row["tools"] else "", row.get("topics", "")]
    return f"{row['name']}: {'; '.join(filter(None, words))}"


def server_rows(fleet: Fleet, client: ClientSession, view: View) -> Iterable[dict[str, Any]]:
    """State, permitted tools and topics of each server that the client may see.

    Fields without a value are left out.
    """
    by_server: dict[str, list[Tool]] = {name: [] for name in fleet.upstreams}
    for tool in view.tools():
        by_server.setdefault(tool.server or "", []).append(tool)
    texts, unusable = permitted_instructions(fleet, view), fleet.unusable_servers
    by_server |= {name: [] for name in unusable if name not in by_server}
    for name, tools in by_server.items():
        upstream = fleet.upstreams.get(name)
        pending = name in unusable or (
            upstream is not None
            and upstream.state
            in (ServerState.CONFIGURED, ServerState.FAILED, ServerState.AWAITING_CONSENT)
        )
        if tools or (pending and client.profile_views.permits_server(name, view)):
            problem = None if upstream is None else upstream.problem_sentence
            if name in unusable:
                problem = entry_problem(unusable[name])
            fields = {
                "state": _shown_state(upstream, is_usable=name not in unusable),
                "tools": len(tools),
                "topics": _topics(tuple(tools)),
                "instructions": texts.get(name, ""),
                "problem": problem,
            }
            shown = {key: value for key, value in fields.items() if value not in (None, "")}
            yield {"name": name, **shown}


def _shown_state(upstream: Upstream | None, *, is_usable: bool) -> str:
    if upstream is None:
        return "known" if is_usable else "not usable"
    return "starting" if upstream.state is ServerState.CONFIGURED else upstream.state.value


@lru_cache(1_000)
def _topics(tools: tuple[Tool, ...]) -> str:
    return ", ".join(topics(tools)) if tools else ""


def permitted_instructions(fleet: Fleet, view: View) -> dict[str, str]:
    """Server to its cleaned instructions, for each permitted server."""
    servers = {tool.server for tool in view.tools()}
    texts = {
        name: safe_instructions(name, listed.instructions)
        for name, listed in fleet.listed_tools.servers.items()
    }
    return {name: text for name, text in texts.items() if text and name in servers}


def servers_digest(fleet: Fleet, client: ClientSession, view: View, limit: int) -> str:
    """Text for the description of `search_tools`: the names of all servers, then what they have.

    The names come first, each server that is down with its state, then the operator's text. The
    remaining tokens go to the topics of the servers, as many for each as fit, and then to the first
    sentences of their instructions.

    Args:
        fleet: the servers.
        client: session of the client.
        view: its permitted tools.
        limit: most tokens of the text.
    """
    count = bundled_counter().count
    operator = client.profile.operator_text.strip()
    rows = sorted(server_rows(fleet, client, view), key=lambda row: str(row["name"]))
    names = server_names(
        [row["name"] for row in rows],
        fleet.down_servers(),
        max(limit - count(operator), limit // 2),
    )
    lines = [line for line in (names, operator) if line]
    remaining = limit - count("\n".join(lines))
    topic_lines: list[str] = []
    for topic_count in range(MAX_TOPICS, 0, -1):
        topic_lines = [
            f"{row['name']}: {', '.join(row['topics'].split(', ')[:topic_count])}"
            for row in rows
            if "topics" in row
        ]
        if count("\n".join(topic_lines)) + 1 <= remaining:
            break
    sentences = (
        f"{row['name']} says: {sentence}"
        for row in rows
        if (sentence := first_sentence(row.get("instructions", "")))
    )
    for line in (*topic_lines, *sentences):
        cost = count(line) + 1
        if cost <= remaining:
            remaining -= cost
            lines.append(line)
    return "\n".join(lines)


def server_names(
    names: Iterable[str], down_servers: Mapping[str, str], tokens: int = MAX_DIGEST_TOKENS
) -> str:
    """A line with the names of servers, as many as fit; empty if there are none.

    Args:
        names: all names, in the order in which they are shown.
        down_servers: server that is down, to its state, which stands after its name.
        tokens: most tokens of the line.
    """
    names = [f"{name} ({down_servers[name]})" if name in down_servers else name for name in names]
    if not names:
        return ""
    shown = len(names)
    while True:
        more = f" and {len(names) - shown} more: see list_servers" if shown < len(names) else ""
        line = f"Servers: {', '.join(names[:shown])}{more}"
        if shown == 0 or bundled_counter().count(line) <= tokens:
            return line
        shown -= max(1, shown // 20)


def definition_fields(tool: Tool, detail: str, summaries: Summaries) -> dict[str, Any]:
    """A tool at a level of detail, as an object."""
    if detail == "full":
        fields = {
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "annotations": tool.annotations,
        }
        return {key: value for key, value in fields.items() if value}
    return dict(tool_fields(tool, Level[detail.upper()], summaries))


def _answer(text: str, content: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(content)
    )
