"""`shortlist calibrate`: when to offer nothing and which hits to drop, by your own queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import counted, note, plain_table, show, step_progress, write_json
from .options import EngineSettingsOption, IndexOption, JsonOption, SourcesOption, TierOption
from .tool_source import chosen_tiers, open_engine, read_labelled_queries

if TYPE_CHECKING:
    from rich.table import Table

    from ..decision.calibration import Calibration, Report
    from ..engine import Engine
    from ..models import Encoder


LEGEND = (
    "asked: queries that a tool fits. found, kept: % of the right tools that the search finds, and "
    "that are offered. tools: offered per query. F1: of the offered tools, and of all found. lost: "
    "% of the queries that lose their tool. no tool: queries that no tool fits. abstained: % of "
    "them that get none. precision: % of the queries without a tool that no tool fits."
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
    threshold: Annotated[
        bool,
        typer.Option(help="Choose, by F1, the score below which a tier drops hits."),
    ] = True,
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
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the decision "no tool fits" to your own queries.

    Needs --index or --tools. To use the result, set `abstention` in the settings to the file. The
    figures shown are measured on queries that were held out in turn, one fifth at a time.
    """
    from ..decision import Decider, calibration
    from ..indexing.configured_tiers import rerankers

    engine = open_engine(index=index, tools=tools, config=config)
    names = chosen_tiers(engine, tier)
    labelled_queries = read_labelled_queries(
        engine, [queries] if no_tool is None else [queries, no_tool]
    )
    with step_progress("asking", len(names) * len(labelled_queries)) as advance:
        result = calibration.calibrate(
            *(engine, labelled_queries, names),
            encoder=encoder_of(engine),
            rerankers=rerankers(engine.config),
            base=Decider.bundled(),
            k=engine.config.k,
            lost=lost,
            threshold=threshold,
            progress=advance,
        )
    result.decider.save(out)
    if as_json:
        write_json(_figures_by_tier(result))
    else:
        _print_result(result, out)


def encoder_of(engine: Engine) -> Encoder | None:
    """The engine's encoder, where a tier uses one."""
    from ..models import load_encoder
    from ..models.checked_models import CheckedEncoder

    settings = engine.config
    if all("dense" not in tier.retrievers for tier in settings.tiers.values()):
        return None
    spec, arguments = settings.model_arguments(settings.encoder)
    return CheckedEncoder(load_encoder(spec, **arguments))


def _figures_by_tier(result: Calibration) -> dict[str, object]:
    return {
        "asked_without_servers": result.negative_count,
        "tiers": {
            tier: {
                "start": result.start[tier],
                "abstain_below": result.decider.tiers[tier].abstain_below,
                "threshold": result.decider.tiers[tier].threshold,
                **report.to_dict(),
            }
            for tier, report in result.reports.items()
        },
    }


def _print_result(result: Calibration, out: Path) -> None:
    show("Held-out queries", "", report_table(result.reports), LEGEND)
    for tier, model in result.decider.tiers.items():
        if model.threshold is not None:
            note(f"{tier}: hits with a score below {model.threshold:.4g} are dropped")
        if not model.abstain_below:
            note(f"note: {tier}: too few queries that a tool fits, it never abstains")
    note(
        f"{out}: {counted(len(result.reports), 'tier')}; "
        f"{counted(result.negative_count, 'request')} asked again without the servers of the right "
        "tools"
    )


def report_table(reports: Mapping[str, Report]) -> Table:
    """Table of offered tools, lost tools and abstentions, one row per tier."""
    numbers = (
        *("asked", "found", "kept", "tools", "F1", "F1 of all", "lost"),
        *("no tool", "abstained", "precision"),
    )
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
        percent(report.f1),
        percent(report.f1_of_all),
        percent(report.lost),
        f"{report.unserved:,}",
        percent(report.abstained),
        percent(report.right),
    )


def percent(share: float | None) -> str:
    """A share in per cent; a dash for none."""
    return "–" if share is None else f"{100 * share:.1f}"
