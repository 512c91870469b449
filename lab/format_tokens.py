"""Tokens about tools that a model reads in each format of a session, beside sending every tool."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..catalog import Tool
from ..engine import Engine
from ..errors import EvaluationError
from ..evals.report import Table
from ..loaders.counting import cached_token_count
from ..loaders.render import FORMATS, renderer_for
from ..session import Session

_COLUMNS = ("format", "list unchanged", "first turn", "new per turn", "last turn", "share of all")


def format_tokens(tools: Sequence[Tool], requests: Sequence[str]) -> tuple[Table, dict[str, Any]]:
    """Tokens of the first and the last turn, and of what a turn adds, for each format.

    In a turn the user asks for something, and the model searches once with the same words. Counted
    is all text about tools in a request: the list without tools that are deferred, the system
    prompt, messages about tools, and definitions where the conversation refers to them. "New" is
    what no earlier request had.

    Args:
        tools: the catalog.
        requests: messages of the user, one for each turn.

    Raises:
        EvaluationError: there are no requests.
    """
    if not requests:
        raise EvaluationError("format tokens: no requests; pass at least one")
    engine = Engine.from_tools(tools)
    all_tokens = {
        style: cached_token_count(_sent_as_all(tools, style)) for style in ("openai", "anthropic")
    }
    figures = {style: _format_figures(engine, style, requests) for style in FORMATS}
    rows: list[tuple[Any, ...]] = []
    for style, tokens in all_tokens.items():
        rows.append((f"all tools, {style}", "yes", tokens, 0, tokens, "100 %"))
    for style, row in figures.items():
        everything = all_tokens["anthropic" if style.startswith("anthropic") else "openai"]
        share = f"{100 * row['last'] / everything:.1f} %"
        new = round(row["new"])
        is_stable = "yes" if row["lists"] == 1 else "no"
        rows.append((style, is_stable, row["first"], new, row["last"], share))
    result = {"tools": len(tools), "turns": len(requests), "all": all_tokens, "formats": figures}
    return Table(_COLUMNS, tuple(rows)), result


def _sent_as_all(tools: Iterable[Tool], style: str) -> str:
    """The list of tools when every tool is sent."""
    session = Engine.from_tools(tools, tiers=["lexical"]).session(
        format=style, pass_through=1, context_tokens=100_000_000
    )
    session.turn("everything")
    return json.dumps(session.tools)


def _format_figures(engine: Engine, style: str, requests: Sequence[str]) -> dict[str, Any]:
    session = engine.session(format=style)
    about_tools: list[Mapping[str, Any]] = []
    lists, totals, new = set(), [], []
    sent_texts: set[str] = set()
    for number, request in enumerate(requests):
        about_tools += session.turn(request).append
        if renderer_for(style).search_kind is not None:
            about_tools += session.search(request, f"call_{number}").append
        lists.add(json.dumps(session.tools))
        texts = _texts(session, about_tools)
        counts = {text: cached_token_count(text) for text in texts}
        totals.append(sum(counts[text] for text in texts))
        new.append(sum(count for text, count in counts.items() if text not in sent_texts))
        sent_texts |= counts.keys()
    later = new[1:] or [0]
    return {
        "lists": len(lists),
        "first": totals[0],
        "last": totals[-1],
        "mean": sum(totals) / len(totals),
        "new": sum(later) / len(later),
    }


def _texts(session: Session, about_tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts about tools in the next request, as the model reads them."""
    request = session.request(about_tools)
    listed = request.get("tools", ())
    deferred = {tool["name"]: tool for tool in listed if tool.get("defer_loading")}
    messages = request.get("messages", request.get("input", ()))
    texts = [json.dumps(tool) for tool in listed if not tool.get("defer_loading")]
    texts += [json.dumps(request[key]) for key in ("system", "instructions") if key in request]
    for message in messages:
        texts.append(json.dumps(message))
        names = [name for name in deferred if f'"tool_name": "{name}"' in texts[-1]]
        texts += [json.dumps(deferred[name]) for name in names]
    return texts
