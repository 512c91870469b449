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
from ..upstream.server_connection import ServerState
from .client_search import find, first_sentence, safe_instructions
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
    view = everything = client.view()
    server = arguments.get("server")
    if server is not None:
        ids = [tool.id for tool in view.tools() if tool.server == server]
        if not ids:
            known = ", ".join(sorted({tool.server or "" for tool in view.tools()}))
            raise RequestError(f"server: no {server!r:.80}; use one of: {known}")
        view = view.limited(ids)
    found = find(
        view,
        arguments["query"],
        instructions(fleet, view),
        k=arguments.get("k", 8),
        tier=arguments.get("tier"),
    )
    detail = arguments.get("detail", "summary")
    summaries = shared_summaries(view.admission.index.summaries)
    held: dict[str, Any] = {
        "tools": [
            {
                "name": hit.id,
                "server": hit.tool.server,
                "description": described(hit.tool, detail, summaries),
                "score": round(hit.score, 4),
            }
            for hit in found.hits
        ],
        "abstained": found.abstained,
        "reason": found.reason if found.abstained else None,
        "dropped": len(found.dropped),
        "tier": found.tier,
        "tier_reason": found.tier_reason,
        "pending": found.pending,
        "starting": [
            name for name in fleet.starting if client.views.permits_server(name, everything)
        ],
        "quarantined": client.views.waiting(everything),
    }
    return _answer(_listed(found, detail, held), held)


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
    asked_for = [
        (asked, view.details([names.meant(asked, view)])[0]) for asked in arguments["names"]
    ]
    if stubs is not None and detail == "signature":
        return _stubs(client, asked_for, stubs)
    left, tools = DETAIL_TOKENS, []
    for asked, found in asked_for:
        if isinstance(found, Refusal | UnknownToolError):
            one = _missing(asked, found)
        else:
            one = {"name": found.id, **definition(found, detail, summaries)}
            if client.profile.split:
                one["call_with"] = CALLS[kind_of(found.annotations)]
            cost = bundled_counter().count(json.dumps(one, ensure_ascii=False))
            if cost > left:
                one = {"name": found.id, "signature": f"{found.id}{signature(found)}"[:4_000]}
                one["shortened"] = "ask for this tool alone to see its definition"
                cost = bundled_counter().count(json.dumps(one, ensure_ascii=False))
            left -= cost
        tools.append(one)
    held = {"tools": tools}
    return _answer(json.dumps(held, ensure_ascii=False, indent=1), held)


def _missing(asked: str, found: Refusal | UnknownToolError) -> dict[str, Any]:
    """The text in place of a definition: why there is none."""
    if isinstance(found, UnknownToolError):
        return {"name": asked, "error": "unknown", "nearest": list(found.nearest)}
    return {
        "name": asked,
        "error": "denied",
        "code": found.detail.get("code", found.kind),
        "reason": found.reason,
        "unlocked_by": list(found.unlocked_by),
    }


def _stubs(
    client: ClientSession,
    asked_for: list[tuple[str, Tool | Refusal | UnknownToolError]],
    stubs: Callable[[ClientSession, Iterable[Tool]], str],
) -> types.CallToolResult:
    """The stubs of all tools in one text with shared types, then a line for each missing tool."""
    tools = [found for _, found in asked_for if isinstance(found, Tool)]
    missing = [_missing(asked, one) for asked, one in asked_for if not isinstance(one, Tool)]
    text, shown = stubs(client, tools), len(tools)
    while shown > 1 and bundled_counter().count(text) > DETAIL_TOKENS:
        shown -= 1
        text = stubs(client, tools[:shown])
    missing += [
        {"name": tool.id, "error": "left out", "reason": "too long together; ask for it alone"}
        for tool in tools[shown:]
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
    said = instructions(fleet, view)
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
                "instructions": said.get(name, ""),
                "problem": None if upstream is None else upstream.problem,
            }


@lru_cache(1_000)
def _topics(tools: tuple[Tool, ...]) -> str:
    return ", ".join(topics(tools)) if tools else ""


def instructions(fleet: Fleet, view: View) -> dict[str, str]:
    """Server to its cleaned instructions, for each permitted server."""
    servers = {tool.server for tool in view.tools()}
    given = {
        name: safe_instructions(name, text) for name, text in fleet.listed.instructions.items()
    }
    return {name: text for name, text in given.items() if text and name in servers}


def digest(fleet: Fleet, client: ClientSession, view: View) -> str:
    """Text for the description of `search_tools`: the operator's text, then a line for each server.

    Servers come first; the tokens that are left go to the first sentences of their
    instructions.
    """
    count = bundled_counter().count
    operator = client.profile.operator.strip()
    lines = [operator] if operator else []
    left = digest_tokens(client.profile.split) - count(operator)
    rows = sorted(server_rows(fleet, client, view), key=lambda row: row["name"])
    for at, row in enumerate(rows):
        line = f"{row['name']} ({row['tools']})" + (f": {row['topics']}" if row["topics"] else "")
        cost = count(line) + 1
        if cost > left - 12:
            lines.append(f"and {len(rows) - at} more servers")
            return "\n".join(lines)
        left -= cost
        lines.append(line)
    for row in rows:
        line = f"{row['name']} says: {first_sentence(row['instructions'])}"
        cost = count(line) + 1
        if row["instructions"] and cost <= left:
            left -= cost
            lines.append(line)
    return "\n".join(lines)


def definition(tool: Tool, detail: str, summaries: Summaries) -> dict[str, Any]:
    """A tool at a level of detail, as an object."""
    if detail == "full":
        held = {
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "annotations": tool.annotations,
        }
        return {key: value for key, value in held.items() if value}
    return {"description": described(tool, detail, summaries)}


def described(tool: Tool, detail: str, summaries: Summaries) -> str:
    """A tool at a level of detail, as one text."""
    if detail == "name":
        return ""
    if detail == "signature":
        return f"{tool.id}{signature(tool)}: {summaries.of(tool)}"
    if detail == "full":
        return definition_text(tool.id, tool.description, tool.input_schema)
    return summaries.of(tool)


def _listed(found: Selection, detail: str, held: Mapping[str, Any]) -> str:
    """Hits grouped by server, best server first, and notes for the model."""
    groups: dict[str, list[str]] = {}
    for row in held["tools"]:
        line = f"- {row['name']}" + (f": {row['description']}" if detail != "name" else "")
        groups.setdefault(row["server"] or "", []).append(line)
    parts = [f"{server}\n" + "\n".join(lines) for server, lines in groups.items()]
    if found.abstained:
        parts.append(f"No tool fits: {found.reason}.")
    elif not groups:
        parts.append("No tool was found.")
    if held["starting"]:
        parts.append(f"Still starting, search again soon: {', '.join(held['starting'])}.")
    if held["quarantined"]:
        waiting = held["quarantined"]
        tools = "1 tool waits" if waiting == 1 else f"{waiting} tools wait"
        parts.append(f"{tools} for the operator's approval (shortlist trust diff).")
    return "\n\n".join(parts)


def _answer(text: str, held: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(held)
    )
