"""`shortlist search`: the tools a request needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, plain_table, show, write_json
from .options import JsonOption, QueryArgument
from .search_options import SearchOptions, with_search_options

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..gating import Refusal
    from ..retrieval import Selection

_DENIED = 3
"""Denied tools that are named, those that fit the request best."""


@with_search_options
def search(
    query: Annotated[str, QueryArgument],
    options: SearchOptions,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Time limit of the answer in milliseconds. A cheaper tier runs if time is short.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the tools that fit a query.

    Needs --index or --tools. A table shows the score of each tool and its rank in each stage of the
    search.
    """
    if budget_ms is not None and not budget_ms > 0:
        raise typer.BadParameter("--budget-ms: a number of milliseconds above 0")
    engine, view = options.open()
    selection = view.search(query, tier=options.tier, k=options.k, budget_ms=budget_ms)
    if as_json:
        write_json(selection.to_dict())
        return
    quarantined = sum(tool_id in engine.catalog for tool_id in engine.quarantined)
    footer = _footer(selection, len(engine.catalog), quarantined)
    if selection.hits:
        show(_table(selection), footer)
    else:
        show("no tool found", footer)


def score_text(score: float) -> str:
    """A score in four significant digits, whatever its units."""
    return f"{score:.4g}"


def refusal_lines(refusals: Iterable[Refusal]) -> list[str]:
    """A line for each reason: the tools, the reason, what unlocks them."""
    tools: dict[str, list[str]] = {}
    for refusal in refusals:
        tools.setdefault(f"{refusal.reason}{unlocking(refusal)}", []).append(refusal.tool_id)
    return [f"  {', '.join(ids)}: {reason}" for reason, ids in tools.items()]


def unlocking(refusal: Refusal) -> str:
    """The end of a tool's line: the tools that unlock it."""
    return f"; unlocked by {', '.join(refusal.unlocked_by)}" if refusal.unlocked_by else ""


def _table(selection: Selection) -> Table:
    stages = list(dict.fromkeys(stage for hit in selection for stage in hit.stages))
    table = plain_table("#", "tool", "score", *stages, right={"#", "score", *stages})
    for hit in selection:
        places = (hit.stages.get(stage) for stage in stages)
        table.add_row(
            str(hit.rank),
            hit.id,
            score_text(hit.score),
            *(str(place.rank) if place else "–" for place in places),
        )
    return table


def _footer(selection: Selection, count: int, quarantined: int) -> Text:
    from rich.text import Text

    text = Text()
    if selection.tier_reason:
        text.append(f"asked for {selection.tier_asked}, ran {selection.tier}: ", style="yellow")
        text.append(f"{selection.tier_reason}\n", style="yellow")
    if selection.dropped:
        text.append(
            f"dropped: {counted(len(selection.dropped), 'tool')} with a score below "
            f"{selection.threshold:.4g}\n"
        )
    if held := len(selection.denied):
        lines = refusal_lines(selection.denied.nearest(_DENIED))
        some = f", {quarantined:,} of them quarantined" if quarantined else ""
        text.append(f"denied: {held:,} of {counted(count, 'tool')}{some}; the nearest:\n")
        text.append("\n".join(lines) + "\n")
    stages = ", ".join(f"{stage} {ms:.1f}" for stage, ms in selection.timings.items())
    text.append(
        f"{selection.tier} over {counted(count, 'tool')} in {selection.total_ms:.1f} ms"
        + (f" ({stages})" if stages else ""),
        style="dim",
    )
    return text
