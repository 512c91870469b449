"""Word overlap between requests and their tools."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean
from typing import TYPE_CHECKING

from ...catalog import Catalog, Tool
from ...text import search_terms
from .tasks import TaskScript

if TYPE_CHECKING:
    from ...loaders.summaries import Summaries


def word_overlap(
    scripts: Iterable[TaskScript], catalog: Catalog, summaries: Summaries
) -> dict[str, dict[str, float]]:
    """Shares of words that a request and its tools have in common, by kind of task.

    Words are stemmed and folded like in the lexical index. A request for several tools is compared
    with all their words together.

    Args:
        scripts: the tasks. Turns without a tool are skipped.
        catalog: catalog with the tools.
        summaries: the lines of the pool.

    Returns:
        Kind of task to: `requests`; `request_in_tools`, the mean share of a request's words that
        stand in a name or description of its tools; `summary_in_request`, the mean share of a
        tool's summary that the request says, and `summary_most`, the largest; `no_name_word`, the
        share of requests that say no word of any of their tools' names.
    """
    rows: dict[str, list[tuple[float, float, bool]]] = {}
    for script in scripts:
        for turn in script.turns:
            if turn.needed:
                tools = [catalog.get(tool_id) for tool_id in turn.needed]
                rows.setdefault(script.kind, []).append(_overlap(turn.user, tools, summaries))
    return {kind: _figures(found) for kind, found in rows.items()}


def _overlap(
    request: str, tools: Iterable[Tool], summaries: Summaries
) -> tuple[float, float, bool]:
    said = set(search_terms(request))
    named: set[str] = set()
    told: set[str] = set()
    most = 0.0
    for tool in tools:
        name = set(search_terms(tool.name))
        named |= name
        told |= name | set(search_terms(tool.description))
        summary = set(search_terms(summaries.of(tool)))
        most = max(most, len(said & summary) / max(len(summary), 1))
    return len(said & told) / max(len(said), 1), most, said.isdisjoint(named)


def _figures(rows: list[tuple[float, float, bool]]) -> dict[str, float]:
    shares, summaries, unnamed = zip(*rows, strict=True)
    return {
        "requests": len(rows),
        "request_in_tools": mean(shares),
        "summary_in_request": mean(summaries),
        "summary_most": max(summaries),
        "no_name_word": mean(unnamed),
    }
