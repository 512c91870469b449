"""`shortlist lab bench tool-attention`: compares methods of showing tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note, write_json
from ...cli.eval import show_table
from ...cli.options import JsonOption, ToolsOption
from .output import step_progress, tell_origin


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("tool-attention")(measure_arms)


def measure_arms(
    tools: ToolsOption = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            "--size", metavar="NUMBER", help="Catalog size; repeatable. 50 to 10,000 by default."
        ),
    ] = None,
    as_json: JsonOption = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE.json",
            help="Also write a record of each table: FILE, and others beside it.",
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="FOLDER", help="Also draw plots of the records."),
    ] = None,
) -> None:
    """Measure how methods of showing tools compare.

    Replays the tasks of the 120-tool testbed under every method, and counts tokens and tools.

    Larger catalogs have the tools of --tools as well, or generated ones.
    """
    from ...catalog import read_tools
    from ..attention import report
    from ..attention.run import SizePlan, measure
    from ..attention.sizes import SIZES
    from ..publishing.record import provenance, running_command, write_record

    if plots is not None and record is None:
        raise typer.BadParameter("--plots draws from the records: give --record too")
    read = [read_tools(path, strict=False, keep_ids=True) for path in tools or []]
    plan = SizePlan(
        others=tuple(tool for one in read for tool in one.tools),
        others_from=tuple("/".join(path.parts[-2:]) for path in tools or []),
        sizes=tuple(sorted(set(size or SIZES))),
    )
    origin = provenance(running_command())
    with step_progress() as step:
        found = measure(plan, step=step)
    if record is not None:
        for one in report.records(found, record.stem, origin):
            write_record(one, record.parent)
    if plots is not None and record is not None:
        from ..publishing.plots import draw_plots

        draw_plots(plots, record.parent)
    if as_json:
        write_json(found | {"origin": origin})
        return
    tell_origin(origin, f"{found['tasks']['requests']} user messages")
    for title, table in report.tables(found).items():
        show_table(title, table)
    for line in report.notes(found):
        note(f"note: {line}")
