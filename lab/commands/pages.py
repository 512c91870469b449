"""`shortlist lab tables` and `shortlist lab plots`: recorded results as tables and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note

DIFFERENT = 3
"""Exit code when a page's tables differ from the records."""

ResultsOption = Annotated[
    Path | None,
    typer.Option("--results", metavar="FOLDER", help="Folder of records; lab/results by default."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("tables")(write_tables)
    app.command("plots")(write_plots)


def write_tables(
    page: Annotated[Path, typer.Argument(metavar="PAGE", help="Markdown page with table markers.")],
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 3 if the page differs.")
    ] = False,
    results: ResultsOption = None,
) -> None:
    """Write the tables of a page from recorded results."""
    from ..publishing import record, tables

    text = page.read_text(encoding="utf-8")
    filled = tables.fill_tables(text, results or record.RESULTS)
    if filled == text:
        return
    if check:
        note(f"{page}: its tables differ from the recorded results")
        raise typer.Exit(DIFFERENT)
    page.write_text(filled, encoding="utf-8")


def write_plots(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder to write SVG files to.")
    ],
    results: ResultsOption = None,
) -> None:
    """Draw plots of recorded results."""
    from ..publishing import plots, record

    for plot, path in plots.draw_plots(out, results or record.RESULTS).items():
        note(f"{plot}: {path or 'not drawn: no record'}")
