"""`shortlist lab record` and `shortlist lab scan`: figures kept with their origin."""

from __future__ import annotations

import contextlib
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note
from ...cli.eval import eval_commands
from ...errors import EvaluationError

_PASSED_ON = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
}


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("record", context_settings=_PASSED_ON)(record_evaluation)
    app.command("scan")(record_scan)
    app.command("format-tokens")(record_format_tokens)


def record_evaluation(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="File of the record.")],
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="TEXT", help="Title of the record; the file name by default."
        ),
    ] = None,
) -> None:
    """Run an evaluation and record it.

    Example: shortlist lab record --title T FILE.json eval --tools FILE --queries FILE
    """
    from ..publishing.record import Record, provenance, running_command, write_record
    from ..publishing.recorded_table import table_of
    from ..training.stock import export_stock, names_stock

    if context.args[:1] != ["eval"]:
        raise typer.BadParameter("write the command to record after FILE.json: eval OPTIONS")
    for option, value in pairwise(context.args):
        if option == "--engine-settings" and names_stock(Path(value)):
            export_stock()
    origin = provenance(running_command())
    printed = io.StringIO()
    app = typer.Typer()
    app.add_typer(eval_commands, name="eval")
    with contextlib.redirect_stdout(printed):
        code = typer.main.get_command(app)(
            [*context.args, "--json"], prog_name="shortlist", standalone_mode=False
        )
    if code:
        raise typer.Exit(code)
    held = json.loads(printed.getvalue())
    if another := held.get("ran_as"):
        told = "; ".join(f"{tier}: {', '.join(instead)}" for tier, instead in another.items())
        raise EvaluationError(f"{file}: not recorded: another tier ran than requested: {told}")
    path = write_record(
        Record(file.stem, title or file.stem, table_of(held), held, origin), file.parent
    )
    note(f"{path}: written")


def record_scan(
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="File of the record.")],
    data: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="Folder of the data sets.")
    ],
    listings: Annotated[
        Path | None,
        typer.Option(
            "--listings",
            metavar="FOLDER",
            help="Folder of tools/list answers of installed servers, one file each.",
        ),
    ] = None,
) -> None:
    """Count the definitions that the scan quarantines, and record the figures."""
    from ...cli.eval import show_table
    from ..publishing.record import Record, provenance, running_command, write_record
    from ..scan_figures import scan_table, scanned_sets

    sets = list(scanned_sets(data, listings))
    table = scan_table(sets)
    figures = {"sets": [scanned.to_dict() for scanned in sets]}
    origin = provenance(running_command())
    path = write_record(
        Record(file.stem, "Definitions quarantined", table, figures, origin), file.parent
    )
    show_table("Definitions quarantined", table)
    note(f"{path}: written")


def record_format_tokens(
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="File of the record.")],
    tools: Annotated[Path, typer.Option("--tools", metavar="FILE", help="File of the tools.")],
    queries: Annotated[
        Path, typer.Option("--queries", metavar="FILE", help='JSONL of requests: {"query": ...}.')
    ],
    count: Annotated[int, typer.Option("--count", help="Tools used, the first of the file.")] = 800,
    turns: Annotated[int, typer.Option("--turns", help="Turns of a conversation.")] = 20,
) -> None:
    """Count the tokens about tools in each format of a session, and record them."""
    from ...catalog import read_tools
    from ...cli.eval import show_table
    from ..format_tokens import format_tokens
    from ..publishing.record import Record, provenance, running_command, write_record

    catalog = list(read_tools(tools, keep_ids=True).tools)[:count]
    rows = queries.read_text(encoding="utf-8").splitlines()[:turns]
    table, figures = format_tokens(catalog, [json.loads(row)["query"] for row in rows])
    title = f"Tokens about tools: {len(catalog)} tools, {len(rows)} turns"
    origin = provenance(running_command())
    path = write_record(Record(file.stem, title, table, figures, origin), file.parent)
    show_table(title, table)
    note(f"{path}: written")
