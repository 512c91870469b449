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
from ..loaders.providers import PROVIDERS, Way
from ..session import Session
from .attention.two_phase import CALL_LEVELS

_COLUMNS = (
    "provider, way",
    "list unchanged",
    "prefix unchanged",
    "first turn",
    "new per turn",
    "last turn",
    "share of all",
    "tokens per offered tool",
)


_REPLY = {"role": "assistant", "content": "."}
"""Stands for what the model says between two messages about tools. It is not counted."""


def format_tokens(tools: Sequence[Tool], requests: Sequence[str]) -> tuple[Table, dict[str, Any]]:
    """Tokens of the first and the last turn, and of what a turn adds, for each provider and way.

    In a turn the user asks for something, and the model searches once with the same words. Counted
    is all text about tools in a request: the list without tools that are deferred, the system
    prompt, messages about tools, and definitions where the conversation refers to them. "New" is
    what no earlier request had. "Per offered tool" is all that was new, divided by the number of
    tools that the turns made callable.

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
        name: cached_token_count(_sent_as_all(tools, name)) for name in ("openai", "anthropic")
    }
    figures = {
        f"{name}, {way}": _figures(engine, name, way, requests)
        for name, provider in PROVIDERS.items()
        for way in provider.ways
    }
    rows: list[tuple[Any, ...]] = []
    for name, tokens in all_tokens.items():
        rows.append((f"all tools, {name}", "yes", "yes", tokens, 0, tokens, "100 %", "–"))
    for label, row in figures.items():
        everything = all_tokens["anthropic" if label.startswith("anthropic") else "openai"]
        share = f"{100 * row['last'] / everything:.1f} %"
        rows.append(
            (
                label,
                "yes" if row["lists"] == 1 else "no",
                "yes" if row["prefix_kept"] else "no",
                row["first"],
                round(row["new"]),
                row["last"],
                share,
                round(row["per_offered"]),
            )
        )
    result = {"tools": len(tools), "turns": len(requests), "all": all_tokens, "formats": figures}
    return Table(_COLUMNS, tuple(rows)), result


def _sent_as_all(tools: Iterable[Tool], provider: str) -> str:
    """The list of tools when every tool is sent."""
    session = Engine.from_tools(tools, tiers=["lexical"]).session(
        provider, tools="list", pass_through=1, context_tokens=100_000_000
    )
    session.turn("everything")
    return json.dumps(session.tools)


def _figures(engine: Engine, provider: str, way: Way, requests: Sequence[str]) -> dict[str, Any]:
    session = engine.session(provider, tools=way)
    about_tools: list[Mapping[str, Any]] = []
    lists, totals, new = set(), [], []
    sent_texts: set[str] = set()
    before: list[str] = []
    prefix_kept = True
    offered: set[str] = set()
    for number, request in enumerate(requests):
        turn = session.turn(request)
        about_tools += [*turn.append, _REPLY]
        offered |= {hit.id for hit in turn.hits if session.level(hit.id) in CALL_LEVELS}
        if PROVIDERS[provider].has_list:
            turn = session.search(request, f"call_{number}")
            about_tools += [*turn.append, _REPLY]
            offered |= {hit.id for hit in turn.hits if session.level(hit.id) in CALL_LEVELS}
        resident = [tool for tool in session.tools if not tool.get("defer_loading")]
        lists.add(json.dumps(resident))
        texts = _texts(session, about_tools)
        prefix_kept &= texts[: len(before)] == before
        before = texts
        counts = {text: cached_token_count(text) for text in texts}
        totals.append(sum(counts[text] for text in texts))
        new.append(sum(count for text, count in counts.items() if text not in sent_texts))
        sent_texts |= counts.keys()
    later = new[1:] or [0]
    return {
        "lists": len(lists),
        "prefix_kept": prefix_kept,
        "first": totals[0],
        "last": totals[-1],
        "mean": sum(totals) / len(totals),
        "new": sum(later) / len(later),
        "offered": len(offered),
        "per_offered": sum(new) / max(len(offered), 1),
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
        if message == _REPLY:
            continue
        texts.append(json.dumps(message))
        names = [name for name in deferred if f'"tool_name": "{name}"' in texts[-1]]
        texts += [json.dumps(deferred[name]) for name in names]
    return texts
