"""`shortlist lab bench postgres`: a catalog in PostgreSQL, and one in process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note
from ...cli.eval import show_table
from ...cli.options import ToolsOption
from .output import step_progress, tell_origin


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("postgres")(measure_stored)


def measure_stored(
    queries: Annotated[
        list[Path],
        typer.Option("--queries", metavar="FILE", help="JSON lines with a query; repeatable."),
    ],
    server: Annotated[
        Path,
        typer.Option(
            "--server",
            metavar="FOLDER",
            help="Folder of the server's data. A later run uses its catalogs again.",
        ),
    ],
    tools: ToolsOption = None,
    fill: Annotated[
        bool, typer.Option("--fill", help="Only write the catalogs, which takes minutes.")
    ] = False,
    sample: Annotated[
        int, typer.Option("--n", metavar="NUMBER", min=1, help="Maximum number of queries.")
    ] = 150,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="FILE.json",
            help="Also write a record of the searches: FILE, and one of changes beside it.",
        ),
    ] = None,
) -> None:
    """Measure searches and changes of a catalog in PostgreSQL by size (extra `dev`).

    Searches in process are measured beside them. Missing tools are recombined from real ones.
    """
    from ..bench import stored
    from ..bench.material import read_material
    from ..publishing.record import Record, provenance, running_command, write_record

    material = read_material(tools or [], queries, sample=sample)
    origin = provenance(running_command())
    with step_progress() as step:
        bench = stored.measure(material, server, fill_only=fill, step=step)
    if fill:
        note(f"{server}: has all catalogs")
        return
    tables = {
        "postgres": ("Hybrid search beyond the encoder", stored.search_table(bench)),
        "postgres_changes": ("Changes in PostgreSQL", stored.change_table(bench)),
    }
    tell_origin(origin, f"{len(material.queries)} queries; {bench.server}")
    for name, (title, table) in tables.items():
        show_table(title, table)
        if record is not None:
            stem = name.replace("postgres", record.stem, 1)
            write_record(Record(stem, title, table, bench.to_json(), origin), record.parent)
