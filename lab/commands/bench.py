"""`shortlist lab bench`: time, memory and size on this machine, with goals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note, write_json
from ...cli.eval import show_table
from ...cli.options import JsonOption, ToolsOption
from . import stored, tool_attention
from .output import step_progress, tell_origin

BARS_FAILED = 3
"""Exit code when a goal is not met."""

_QUICK_SIZE = 5_000


def register(app: typer.Typer) -> None:
    """Add the command to an application, with the benchmarks it has under it."""
    benches = typer.Typer(invoke_without_command=True)
    benches.callback()(bench)
    stored.register(benches)
    tool_attention.register(benches)
    app.add_typer(benches, name="bench")


def bench(
    context: typer.Context,
    tools: ToolsOption = None,
    queries: Annotated[
        list[Path] | None,
        typer.Option("--queries", metavar="FILE", help="JSON lines with a query; repeatable."),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            "--size", metavar="NUMBER", help="Catalog size; repeatable. 120 to 50,000 by default."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="5,000 tools only.")] = False,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Beyond 5,000 tools, make vectors by noise instead of encoding."
        ),
    ] = False,
    sample: Annotated[
        int, typer.Option("--n", metavar="NUMBER", min=1, help="Maximum number of queries.")
    ] = 200,
    seed: Annotated[
        int,
        typer.Option(metavar="NUMBER", help="Seed of the random sample and of generated tools."),
    ] = 0,
    bars: Annotated[
        bool, typer.Option("--bars", help="Print the goals only; exit with 3 if one is not met.")
    ] = False,
    as_json: JsonOption = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE.json", help="Also write a record of the figures."),
    ] = None,
) -> None:
    """Measure time and memory of every tier.

    Compared with the encoder alone and with sentence-transformers.
    """
    if context.invoked_subcommand is not None:
        return
    from ..bench import report
    from ..bench.bars import short
    from ..bench.material import read_material
    from ..bench.run import SIZES, BenchPlan, measure
    from ..publishing.record import Record, provenance, running_command, write_record

    if quick and size:
        raise typer.BadParameter("--quick is --size 5000: give one of them")
    sizes = (_QUICK_SIZE,) if quick else tuple(dict.fromkeys(size or SIZES))
    material = read_material(tools or [], queries or [], sample=sample, seed=seed)
    plan = BenchPlan(sizes=sizes, fast=fast)
    origin = provenance(running_command())
    with step_progress() as step:
        found = measure(material, plan, step=step)
    held = report.to_json(found)
    if record is not None:
        table = report.bars_table(found)
        write_record(Record(record.stem, "Speed and size", table, held, origin), record.parent)
    if as_json:
        write_json(held | {"origin": origin})
    else:
        tell_origin(origin, f"{len(material.queries)} queries")
        if not bars:
            show_table("Searches: p50 / p95 ms", report.latency_table(found))
            show_table("Stages, one caller: p50 ms", report.stage_table(found))
            show_table("Compared, calls in turn", report.comparison_table(found))
            show_table("Gate, session and decision", report.decided_table(found))
            show_table("Under a budget of 50 ms", report.budget_table(found))
            show_table("Tools stuffed with queries", report.stuffing_table(found))
            show_table("Indexes", report.build_table(found))
            show_table("Start and memory", report.process_table(found))
        show_table("Goals", report.bars_table(found))
        for line in held["notes"]:
            note(f"note: {line}")
    if bars and short(report.bars(found)):
        raise typer.Exit(BARS_FAILED)
