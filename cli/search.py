"""`shortlist search`: the tools a request needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, plain_table, show, write_json
from .options import (
    AllowOption,
    ConfigOption,
    IndexOption,
    JsonOption,
    KOption,
    QueryArgument,
    SourcesOption,
    TierOption,
)
from .source import caller_view, open_engine
from .state import (
    CalledOption,
    FactOption,
    MilestoneOption,
    ScopeOption,
    read_state,
    refusal_lines,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ..retrieval import Selection


_DENIED = 3
"""Denied tools that are named, those that fit the request best."""


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("search")(search)


def search(
    query: Annotated[str, QueryArgument],
    index: IndexOption = None,
    tools: SourcesOption = None,
    config: ConfigOption = None,
    tier: TierOption = None,
    k: KOption = None,
    allow: AllowOption = None,
    scope: ScopeOption = None,
    called: CalledOption = None,
    milestone: MilestoneOption = None,
    fact: FactOption = None,
    budget_ms: Annotated[
        float | None,
        typer.Option(
            "--budget-ms",
            metavar="MS",
            help="Time limit of the answer in milliseconds. A cheaper tier runs if time is short.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the tools that fit a query.

    A table shows the score of each tool and its rank in each stage of the search.
    """
    if budget_ms is not None and not budget_ms > 0:
        raise typer.BadParameter("--budget-ms: a number of milliseconds above 0")
    engine = open_engine(index, tools, config, tier)
    view = caller_view(engine, allow, read_state(scope, called, milestone, fact))
    selection = view.search(query, tier=tier, k=k, budget_ms=budget_ms)
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
