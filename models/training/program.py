"""Runs a training program with a command line of its own."""

from __future__ import annotations

from collections.abc import Callable

import typer


def run_program(main: Callable[..., None]) -> None:
    """Run a function with the options of its annotations, as `typer.run` does, with plain help.

    Args:
        main: the program.
    """
    program = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    names = {"help_option_names": ["-h", "--help"]}
    program.command(context_settings=names)(main)
    program()
