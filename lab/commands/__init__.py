"""`shortlist lab`: benchmarks, peers, training, and the tables and plots made of the results."""

from __future__ import annotations

import typer

from . import bench, decision, pages, peers, programs, record


def register(app: typer.Typer) -> None:
    """Add the `lab` commands to an application."""
    lab = typer.Typer(
        help="Reproduce this project's own figures; needs a checkout.",
        no_args_is_help=True,
        add_completion=False,
    )
    for command in (bench, decision, peers, record, pages, programs):
        command.register(lab)
    app.add_typer(lab, name="lab")
