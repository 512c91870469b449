"""`shortlist calibrate`: when to offer nothing and where to cut, fitted to your own queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, plain_table, show, steps, write_json
from .options import ConfigOption, IndexOption, JsonOption, SourcesOption, TierOption
from .source import open_engine, read_requests, tiers_of

if TYPE_CHECKING:
    from rich.table import Table

    from ..decision.calibration import Calibration
    from ..decision.report import Report
    from ..engine import Engine
    from ..models import Encoder


LEGEND = (
    "asked: queries that a tool fits. top 10, kept: % of the right tools found, and left by the "
    "cut. tools: offered per query. lost: % of these queries that get no tool. no tool: "
    "queries that no tool fits. abstained: % of them that get none. precision: % of the queries "
    "without a tool that no tool fits."
)


def calibrate(
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help='JSONL of labelled queries: {"query": ..., "relevant": [ids]}.',
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write the result to.")],
    index: IndexOption = None,
    tools: SourcesOption = None,
    no_tool: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSONL of queries that no tool fits.")
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            metavar="RATE", min=0.001, max=0.5, help="Share of right tools that may be cut off."
        ),
    ] = 0.05,
    lost: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            min=0.0,
            max=0.5,
            help="Share of queries that may get no tool although one fits.",
        ),
    ] = 0.0275,
    tier: TierOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the decision "no tool fits" to your own queries.

    Needs --index or --tools. To use the result, set `decision` in the settings to the file. The
    figures shown are measured on queries that were held out in turn, one fifth at a time.
    """
    from ..decision import Decider, calibration

    engine = open_engine(index, tools, config, None)
    names = tiers_of(engine, tier)
    requests = read_requests(engine, [queries] if no_tool is None else [queries, no_tool])
    with steps("asking", len(names) * len(requests)) as advance:
        found = calibration.calibrate(
            *(engine, requests, names),
            encoder=encoder_of(engine),
            base=Decider.bundled(),
            alpha=alpha,
            lost=lost,
            progress=advance,
        )
    found.decider.save(out)
    if as_json:
        write_json(_held(found))
    else:
        _tell(found, out)


def encoder_of(engine: Engine) -> Encoder | None:
    """The engine's encoder, where a tier uses one."""
    from ..models import load_encoder

    settings = engine.config
    if all("dense" not in tier.retrievers for tier in settings.tiers.values()):
        return None
    spec, arguments = settings.model_arguments(settings.encoder)
    return load_encoder(spec, **arguments)


def _held(found: Calibration) -> dict[str, object]:
    return {
        "asked_without_servers": found.without,
        "tiers": {
            tier: {
                "start": found.start[tier],
                "abstain_below": found.decider.tiers[tier].abstain_below,
                "keep_from": found.decider.tiers[tier].keep_from,
                "alpha": found.decider.tiers[tier].alpha,
                **report.to_dict(),
            }
            for tier, report in found.reports.items()
        },
    }


def _tell(found: Calibration, out: Path) -> None:
    show("Held-out queries", "", report_table(found.reports), LEGEND)
    for tier, model in found.decider.tiers.items():
        if model.alpha is None:
            reach = found.reports[tier].reach
            note(
                f"note: {tier}: all tools found are offered, because no cut reaches --alpha: the "
                f"search finds {reach:.1%} of the right tools, or there are too few queries"
            )
    note(
        f"{out}: {counted(len(found.reports), 'tier')}; "
        f"{counted(found.without, 'request')} asked again without the servers of the right tools"
    )


def report_table(reports: Mapping[str, Report]) -> Table:
    """Table of kept tools, lost tools and abstentions, one row per tier."""
    numbers = ("asked", "top 10", "kept", "tools", "lost", "no tool", "abstained", "precision")
    table = plain_table("tier", *numbers, right=set(numbers))
    for tier, report in reports.items():
        table.add_row(tier, *_figures(report))
    return table


def _figures(report: Report) -> tuple[str, ...]:
    return (
        f"{report.served:,}",
        percent(report.found),
        percent(report.kept),
        f"{report.offered:.2f}",
        percent(report.lost),
        f"{report.unserved:,}",
        percent(report.abstained),
        percent(report.right),
    )


def percent(share: float | None) -> str:
    """A share in per cent; a dash for none."""
    return "–" if share is None else f"{100 * share:.1f}"
