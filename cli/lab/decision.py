"""`shortlist lab check-decision`: measures the bundled decision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibrate import encoder_of, percent, report_table
from ..console import plain_table, show, steps, write_json
from ..options import ConfigOption, IndexOption, JsonOption, TierOption, ToolsOption
from ..source import open_engine, read_requests, tiers_of

if TYPE_CHECKING:
    from ...evals.lab.decision_check import Checked


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("check-decision")(check)


def check(
    queries: Annotated[
        Path,
        typer.Argument(help='JSONL of labelled queries: {"query": ..., "relevant": [ids]}.'),
    ],
    index: IndexOption = None,
    tools: ToolsOption = None,
    no_tool: Annotated[
        Path | None,
        typer.Option("--no-tool", metavar="FILE", help="JSONL of queries that no tool fits."),
    ] = None,
    tier: TierOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the bundled decision on labelled queries."""
    from ...decision import Decider
    from ...evals.lab.decision_check import check_decision

    engine = open_engine(index, tools, config, None)
    names = tiers_of(engine, tier)
    requests = read_requests(engine, [queries] if no_tool is None else [queries, no_tool])
    with steps("asking", len(names) * len(requests)) as advance:
        found = check_decision(
            *(engine, requests, names),
            encoder=encoder_of(engine),
            base=Decider.bundled(),
            progress=advance,
        )
    if as_json:
        write_json({name: checked.to_dict() for name, checked in found.items()})
    else:
        _tell(found)


def _tell(found: Mapping[str, Checked]) -> None:
    reports = {tier: checked.report for tier, checked in found.items()}
    show("", "the bundled decision; per cent, tools per query", report_table(reports))
    numbers = ("alpha", "missed", "tools")
    table = plain_table("tier", *numbers, right=set(numbers))
    for tier, checked in found.items():
        for row in checked.cuts:
            alpha = "as in 10" if row.alpha is None else percent(row.alpha)
            table.add_row(tier, alpha, percent(row.missed), f"{row.offered:.2f}")
    show("", "Cuts fitted on one half of the queries, measured on the other (%)", "", table)
