"""`shortlist lab check-decision`: measures the bundled decision."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.calibrate import encoder_of, report_table
from ...cli.console import show, step_progress, write_json
from ...cli.options import EngineSettingsOption, IndexOption, JsonOption, TierOption, ToolsOption
from ...cli.tool_source import chosen_tiers, open_engine, read_labelled_queries


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
    config: EngineSettingsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the bundled decision on labelled queries."""
    from ...decision import Decider
    from ...indexing.configured_tiers import rerankers
    from ..deciding.decision_check import check_decision

    engine = open_engine(index=index, tools=tools, config=config)
    names = chosen_tiers(engine, tier)
    requests = read_labelled_queries(engine, [queries] if no_tool is None else [queries, no_tool])
    with step_progress("asking", len(names) * len(requests)) as advance:
        found = check_decision(
            *(engine, requests, names),
            encoder=encoder_of(engine),
            rerankers=rerankers(engine.config),
            base=Decider.bundled(),
            k=engine.config.k,
            progress=advance,
        )
    if as_json:
        write_json({name: report.to_dict() for name, report in found.items()})
    else:
        show("", "the bundled decision; per cent, tools per query", report_table(found))
