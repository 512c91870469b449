"""Runs a training program with its own command line."""

from __future__ import annotations

from collections.abc import Callable

import typer


def run_program(main: Callable[..., None]) -> None:
    """Run a function with options from its annotations, like `typer.run`, but with plain help.

    Args:
        main: the program.
    """
    program = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    names = {"help_option_names": ["-h", "--help"]}
    program.command(context_settings=names)(main)
    program()
