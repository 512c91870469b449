"""The answers of the meta-tools to one client, within its permissions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import mcp.types as types

from ...catalog import Tool
from ...errors import RequestError, UnknownToolError
from ...gating import Refusal
from ...loaders.counting import bundled_counter
from ...loaders.detail import definition_text, signature
from ...loaders.summaries import Summaries, shared_summaries
from ...loaders.topics import topics
from ...retrieval import Selection
from ...view import View
from ..profiles.client_sessions import ClientSession
from ..upstream.fleet import Fleet
from ..upstream.safe_texts import safe_instructions
from ..upstream.server_connection import ServerState
from .client_search import find_tools, first_sentence
from .meta_tool_definitions import CALLS, digest_tokens, kind_of

#: Tokens of definitions in one answer.
DETAIL_TOKENS = 8_000


def search(
    fleet: Fleet, client: ClientSession, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """The answer of `search_tools`.

    Raises:
        RequestError: an argument is wrong.
    """
    permitted = view = client.view()
    server = arguments.get("server")
    if server is not None:
        ids = [tool.id for tool in view.tools() if tool.server == server]
        if not ids:
            permitted_names = ", ".join(sorted({tool.server or "" for tool in view.tools()}))
            raise RequestError(f"server: no {server!r:.80}; use one of: {permitted_names}")
        view = view.limited(ids)
    selection = find_tools(
        view,
        arguments["query"],
        instructions(fleet, view),
        k=arguments.get("k", 8),
        tier=arguments.get("tier"),
    )
    detail = arguments.get("detail", "summary")
    summaries = shared_summaries(view.admission.index.summaries)
    content: dict[str, Any] = {
        "tools": [
            {
                "name": hit.id,
                "server": hit.tool.server,
                "description": describe_tool(hit.tool, detail, summaries),
                "score": round(hit.score, 4),
            }
            for hit in selection.hits
        ],
        "abstained": selection.abstained,
        "reason": selection.reason if selection.abstained else None,
        "dropped": len(selection.dropped),
        "tier": selection.tier,
        "tier_reason": selection.tier_reason,
        "pending": selection.pending,
        "starting": [
            name for name in fleet.starting if client.views.permits_server(name, permitted)
        ],
        "quarantined": client.views.quarantined_count(permitted),
    }
    return _answer(_search_text(selection, detail, content), content)


def details(
    client: ClientSession,
    arguments: Mapping[str, Any],
    stubs: Callable[[ClientSession, Iterable[Tool]], str] | None = None,
) -> types.CallToolResult:
    """The answer of `get_tool_details`, within `DETAIL_TOKENS`.

    Args:
        client: session of the client.
        arguments: arguments of the call.
        stubs: writes Python stubs of tools; None for call signatures.
    """
    view, detail = client.view(), arguments.get("detail", "full")
    summaries = shared_summaries(view.admission.index.summaries)
    names = client.views.names(view.catalog)
    outcomes = [(name, view.details([names.resolve(name, view)])[0]) for name in arguments["names"]]
    if stubs is not None and detail == "signature":
        return _stubs(client, outcomes, stubs)
    remaining, rows = DETAIL_TOKENS, []
    for name, outcome in outcomes:
        if isinstance(outcome, Refusal | UnknownToolError):
            rows.append(_error_row(name, outcome))
            continue
        tool = outcome
        row = {"name": tool.id, **definition(tool, detail, summaries)}
        if client.profile.split:
            row["call_with"] = CALLS[kind_of(tool.annotations)]
        cost = _json_tokens(row)
        if cost > remaining:
            row = {"name": tool.id, "signature": f"{tool.id}{signature(tool)}"[:4_000]}
            row["shortened"] = "ask for this tool alone to see its definition"
            cost = _json_tokens(row)
        remaining -= cost
        rows.append(row)
    content = {"tools": rows}
    return _answer(json.dumps(content, ensure_ascii=False, indent=1), content)


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
    client: ClientSession,
    outcomes: list[tuple[str, Tool | Refusal | UnknownToolError]],
    stubs: Callable[[ClientSession, Iterable[Tool]], str],
) -> types.CallToolResult:
    """The stubs of all tools in one text with shared types, then a line for each missing tool."""
    tools = [outcome for _, outcome in outcomes if isinstance(outcome, Tool)]
    missing = [
        _error_row(name, outcome) for name, outcome in outcomes if not isinstance(outcome, Tool)
    ]
    text, stub_count = stubs(client, tools), len(tools)
    while stub_count > 1 and bundled_counter().count(text) > DETAIL_TOKENS:
        stub_count -= 1
        text = stubs(client, tools[:stub_count])
    missing += [
        {"name": tool.id, "error": "left out", "reason": "too long together; ask for it alone"}
        for tool in tools[stub_count:]
    ]
    parts = [text, json.dumps(missing, ensure_ascii=False) if missing else ""]
    return _answer("\n\n".join(filter(None, parts)), {"stubs": text, "missing": missing})


def servers(fleet: Fleet, client: ClientSession) -> types.CallToolResult:
    """The answer of `list_servers`."""
    rows = list(server_rows(fleet, client, client.view()))
    lines = [
        f"{row['name']}: {row['state']}, {row['tools']} tools"
        + (f", about {row['topics']}" if row["topics"] else "")
        + (f" ({row['problem']})" if row["problem"] else "")
        + (f"\n  {row['instructions']}" if row["instructions"] else "")
        for row in rows
    ]
    return _answer("\n".join(lines) or "No server may be used.", {"servers": rows})


def server_rows(fleet: Fleet, client: ClientSession, view: View) -> Iterable[dict[str, Any]]:
    """State, permitted tools and topics of each server that the client may see."""
    by_server: dict[str, list[Tool]] = {name: [] for name in fleet.upstreams}
    for tool in view.tools():
        by_server.setdefault(tool.server or "", []).append(tool)
    texts = instructions(fleet, view)
    for name, tools in by_server.items():
        upstream = fleet.upstreams.get(name)
        pending = upstream is not None and upstream.state in (
            ServerState.CONFIGURED,
            ServerState.FAILED,
        )
        if tools or (pending and client.views.permits_server(name, view)):
            yield {
                "name": name,
                "state": "known" if upstream is None else upstream.state.value,
                "tools": len(tools),
                "topics": _topics(tuple(tools)),
                "instructions": texts.get(name, ""),
                "problem": None if upstream is None else upstream.problem_sentence,
            }


@lru_cache(1_000)
def _topics(tools: tuple[Tool, ...]) -> str:
    return ", ".join(topics(tools)) if tools else ""


def instructions(fleet: Fleet, view: View) -> dict[str, str]:
    """Server to its cleaned instructions, for each permitted server."""
    servers = {tool.server for tool in view.tools()}
    texts = {
        name: safe_instructions(name, text) for name, text in fleet.listed.instructions.items()
    }
    return {name: text for name, text in texts.items() if text and name in servers}


def digest(fleet: Fleet, client: ClientSession, view: View) -> str:
    """Text for the description of `search_tools`: the operator's text, then a line for each server.

    Servers come first; the remaining tokens go to the first sentences of their
    instructions.
    """
    count = bundled_counter().count
    operator = client.profile.operator.strip()
    lines = [operator] if operator else []
    remaining = digest_tokens(client.profile.split) - count(operator)
    rows = sorted(server_rows(fleet, client, view), key=lambda row: row["name"])
    for position, row in enumerate(rows):
        line = f"{row['name']} ({row['tools']})" + (f": {row['topics']}" if row["topics"] else "")
        cost = count(line) + 1
        if cost > remaining - 12:
            lines.append(f"and {len(rows) - position} more servers")
            return "\n".join(lines)
        remaining -= cost
        lines.append(line)
    for row in rows:
        line = f"{row['name']} says: {first_sentence(row['instructions'])}"
        cost = count(line) + 1
        if row["instructions"] and cost <= remaining:
            remaining -= cost
            lines.append(line)
    return "\n".join(lines)


def definition(tool: Tool, detail: str, summaries: Summaries) -> dict[str, Any]:
    """A tool at a level of detail, as an object."""
    if detail == "full":
        fields = {
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "annotations": tool.annotations,
        }
        return {key: value for key, value in fields.items() if value}
    return {"description": describe_tool(tool, detail, summaries)}


def describe_tool(tool: Tool, detail: str, summaries: Summaries) -> str:
    """A tool at a level of detail, as one text."""
    if detail == "name":
        return ""
    if detail == "signature":
        return f"{tool.id}{signature(tool)}: {summaries.of(tool)}"
    if detail == "full":
        return definition_text(tool.id, tool.description, tool.input_schema)
    return summaries.of(tool)


_NEXT_SEARCH = "Answer without a tool, or search again in other words."


def _search_text(selection: Selection, detail: str, content: Mapping[str, Any]) -> str:
    """Hits grouped by server, best server first, and notes for the model."""
    groups: dict[str, list[str]] = {}
    for row in content["tools"]:
        line = f"- {row['name']}" + (f": {row['description']}" if detail != "name" else "")
        groups.setdefault(row["server"] or "", []).append(line)
    parts = [f"{server}\n" + "\n".join(lines) for server, lines in groups.items()]
    if selection.abstained:
        reason = str(selection.reason).removeprefix("no tool fits: ")
        parts.append(f"No tool fits: {reason}. {_NEXT_SEARCH}")
    elif not groups:
        parts.append(f"No tool was found. {_NEXT_SEARCH}")
    if content["starting"]:
        parts.append(f"Still starting, search again soon: {', '.join(content['starting'])}.")
    if content["quarantined"]:
        waiting = content["quarantined"]
        tools = "1 tool waits" if waiting == 1 else f"{waiting} tools wait"
        parts.append(f"{tools} for the operator's approval (shortlist trust diff).")
    return "\n\n".join(parts)


def _answer(text: str, content: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(content)
    )
