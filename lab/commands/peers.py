"""`shortlist lab peers`: other tool retrievers on the same queries, in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...cli.console import note, step_progress, write_json
from ...cli.eval import show_table
from ...cli.options import JsonOption, TierOption


def register(app: typer.Typer) -> None:
    """Add the command to an application."""
    app.command("peers")(compare_peers)
    app.command("frameworks")(compare_frameworks)


def compare_peers(
    data: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="Folder of the evaluation sets.")
    ],
    on: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME", help="Data set to use; repeatable. All by default."),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            "--peer", metavar="NAME", help="Tool to compare with; repeatable. All by default."
        ),
    ] = None,
    tier: TierOption = None,
    as_json: JsonOption = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE.json", help="Also write a record of the figures."),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="TEXT", help="Title of the record; the file name by default."
        ),
    ] = None,
) -> None:
    """Compare with other tool retrievers (extra `lab`)."""
    from ...config import Config
    from ...evals.report import Table
    from ..peers.compare import compare, published_row, table
    from ..peers.registry import NOT_OFFLINE, PEERS
    from ..peers.sets import SETS
    from ..publishing.record import Record, provenance, running_command, write_record

    known = {"--set": (on, SETS), "--peer": (peer, (*PEERS, *NOT_OFFLINE))}
    for option, (names, there) in known.items():
        for name in names or ():
            if name not in there:
                raise typer.BadParameter(f"{option}: no {name!r}; use one of: {', '.join(there)}")
    sets = [SETS[name](data) for name in on or SETS]
    with step_progress("asking", 0) as advance:
        rows = list(
            compare(
                sets,
                peers=peer or [*PEERS, *NOT_OFFLINE],
                tiers=tier or list(Config().tiers),
                progress=advance,
            )
        )
    rows += [row for group in sets for row in published_row(group)]
    tables = {one.name: table([row for row in rows if row.set_name == one.name]) for one in sets}
    held = {"rows": [row.to_dict() for row in rows]}
    if record is not None:
        columns = ("set", *next(iter(tables.values())).columns)
        cells = tuple((name, *row) for name, shown in tables.items() for row in shown.rows)
        origin = provenance(running_command())
        made = Record(record.stem, title or record.stem, Table(columns, cells), held, origin)
        write_record(made, record.parent)
    if as_json:
        write_json(held)
        return
    for name, shown in tables.items():
        show_table(name, shown)


def compare_frameworks(
    file: Annotated[Path, typer.Argument(metavar="FILE.json", help="File of the record.")],
    data: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", help="Folder of the evaluation sets.")
    ],
) -> None:
    """Compare searches through agent frameworks: their own, and that of shortlist."""
    from ..peers.compare import compare, framework_table
    from ..peers.registry import FRAMEWORKS
    from ..peers.sets import OF_OTHER_PROJECTS, SETS
    from ..publishing.record import Record, provenance, running_command, write_record

    readers = {"livemcpbench": SETS["livemcpbench"], **OF_OTHER_PROJECTS}
    sets = [read(data) for read in readers.values()]
    origin = provenance(running_command())
    with step_progress("asking", 0) as advance:
        rows = list(compare(sets, peers=list(FRAMEWORKS), tiers=(), progress=advance))
    shown, title = framework_table(rows), "Search through each framework"
    figures = {"rows": [row.to_dict() for row in rows]}
    path = write_record(Record(file.stem, title, shown, figures, origin), file.parent)
    show_table(title, shown)
    note(f"{path}: written")
