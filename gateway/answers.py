"""What the meta-tools answer, for one client under one permission."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import mcp.types as types

from ..catalog import Tool
from ..catalog.document import embedding_text
from ..errors import RequestError, UnknownToolError
from ..gating import Refusal
from ..loaders.counting import bundled_counter
from ..loaders.detail import definition_text
from ..loaders.digest import topics
from ..loaders.signature import signature
from ..loaders.summary import summarize
from ..retrieval import Selection
from ..view import View
from .fleet import Fleet
from .upstream import State

#: Tokens of definitions in one answer, and of the digest of servers in a description.
DETAIL_TOKENS, DIGEST_TOKENS = 8_000, 200
#: Summaries of the tools found lately: making eight takes about as long as the search itself.
_summary = lru_cache(maxsize=1_024)(summarize)


def search(fleet: Fleet, view: View, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """The answer of `search_tools`.

    Raises:
        RequestError: an argument is wrong.
    """
    server = arguments.get("server")
    if server is not None:
        ids = [tool.id for tool in view.tools() if tool.server == server]
        if not ids:
            known = ", ".join(sorted({tool.server or "" for tool in view.tools()}))
            raise RequestError(f"server: no {server!r:.80}; use one of: {known}")
        view = fleet.engine.view(view.state, allowed=ids)
    found = view.search(
        arguments["query"], k=arguments.get("k", 8), tier=arguments.get("tier"), decide=True
    )
    detail = arguments.get("detail", "summary")
    quarantined = sum(tool_id in view.catalog for tool_id in fleet.engine.quarantined)
    held: dict[str, Any] = {
        "tools": [
            {
                "name": hit.id,
                "server": hit.tool.server,
                "description": described(hit.tool, detail),
                "score": round(hit.score, 4),
            }
            for hit in found.hits
        ],
        "abstained": found.abstained,
        "reason": found.reason if found.abstained else None,
        "tier": found.tier,
        "starting": list(fleet.starting),
        "quarantined": quarantined,
    }
    return _answer(_listed(found, detail, held), held)


def details(view: View, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """The answer of `get_tool_details`, within `DETAIL_TOKENS`."""
    detail = arguments.get("detail", "full")
    left, tools = DETAIL_TOKENS, []
    for asked, found in zip(arguments["names"], view.details(arguments["names"]), strict=True):
        if isinstance(found, Refusal):
            one: dict[str, Any] = {"name": asked, "error": "denied", **found.to_dict()}
        elif isinstance(found, UnknownToolError):
            one = {"name": asked, "error": "unknown", "nearest": list(found.nearest)}
        else:
            one = {"name": found.id, **definition(found, detail)}
            cost = bundled_counter().count(json.dumps(one, ensure_ascii=False))
            if cost > left:
                one = {"name": found.id, "signature": f"{found.id}{signature(found)}"[:4_000]}
                one["shortened"] = "ask for this tool alone to see its definition"
                cost = bundled_counter().count(json.dumps(one, ensure_ascii=False))
            left -= cost
        tools.append(one)
    held = {"tools": tools}
    return _answer(json.dumps(held, ensure_ascii=False, indent=1), held)


def servers(fleet: Fleet, view: View) -> types.CallToolResult:
    """The answer of `list_servers`."""
    rows = list(server_rows(fleet, view))
    lines = [
        f"{row['name']}: {row['state']}, {row['tools']} tools"
        + (f", about {row['topics']}" if row["topics"] else "")
        + (f" ({row['problem']})" if row["problem"] else "")
        for row in rows
    ]
    return _answer("\n".join(lines) or "No server is configured.", {"servers": rows})


def server_rows(fleet: Fleet, view: View) -> Iterable[dict[str, Any]]:
    """For each server that the client may know of: state, number of permitted tools, topics."""
    by_server: dict[str, list[Tool]] = {name: [] for name in fleet.upstreams}
    for tool in view.tools():
        by_server.setdefault(tool.server or "", []).append(tool)
    for name, tools in by_server.items():
        upstream = fleet.upstreams.get(name)
        pending = upstream is not None and upstream.state in (State.CONFIGURED, State.FAILED)
        if tools or pending:
            yield {
                "name": name,
                "state": "known" if upstream is None else upstream.state.value,
                "tools": len(tools),
                "topics": ", ".join(topics(tools)[:6]) if tools else "",
                "problem": None if upstream is None else upstream.problem,
            }


def digest(fleet: Fleet, view: View, operator: str = "") -> str:
    """The servers in a few lines, for the description of `search_tools`."""
    lines = [operator.strip()] if operator.strip() else []
    left = DIGEST_TOKENS - bundled_counter().count(operator)
    rows = sorted(server_rows(fleet, view), key=lambda row: row["name"])
    for at, row in enumerate(rows):
        line = f"{row['name']} ({row['tools']})" + (f": {row['topics']}" if row["topics"] else "")
        cost = bundled_counter().count(line) + 1
        if cost > left - 12:
            lines.append(f"and {len(rows) - at} more servers")
            break
        left -= cost
        lines.append(line)
    return "\n".join(lines)


def definition(tool: Tool, detail: str) -> dict[str, Any]:
    """A tool at a level of detail, as an object."""
    if detail == "full":
        held = {
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "annotations": tool.annotations,
        }
        return {key: value for key, value in held.items() if value}
    return {"description": described(tool, detail)}


def described(tool: Tool, detail: str) -> str:
    """A tool at a level of detail, as one text."""
    if detail == "name":
        return ""
    if detail == "signature":
        return f"{tool.id}{signature(tool)}: {_summary(tool)}"
    if detail == "full":
        return definition_text(tool.id, tool.description, tool.input_schema)
    return _summary(tool) or embedding_text(tool)[:200]


def _listed(found: Selection, detail: str, held: Mapping[str, Any]) -> str:
    """Hits grouped by server, best server first, and what else the model should know."""
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
        parts.append(
            f"{held['quarantined']} tools wait for the operator's approval (shortlist doctor)."
        )
    return "\n\n".join(parts)


def _answer(text: str, held: Mapping[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=dict(held)
    )
