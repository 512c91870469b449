"""Output: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


_WIDTH = 120
"""Columns of what does not go to a terminal, where nothing else sets them."""
_UNBOUNDED = 10_000
"""Columns to measure in when there is no bound; more than any line takes."""


def console(*, err: bool = False) -> Console:
    """A console on stdout or stderr that lets a closed pipe be known."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError

    made = _Console(stderr=err, highlight=False, markup=False, emoji=False)
    if _unbounded(made):
        made.width = _WIDTH
    return made


def show(*parts: RenderableType) -> None:
    """Print to stdout; away from a terminal, as wide as it takes to cut nothing."""
    out = console()
    if _unbounded(out):
        least, out.width = out.width, _UNBOUNDED
        out.width = max(least, *(out.measure(part).maximum for part in parts))
    for part in parts:
        out.print(part)


def _unbounded(console: Console) -> bool:
    return not console.is_terminal and "COLUMNS" not in os.environ


def write_json(value: Any) -> None:
    """Print JSON, in ASCII so that every terminal and every locale carries it."""
    typer.echo(json.dumps(value, indent=1))


def note(text: str) -> None:
    """Tell the user something beside the result, on stderr."""
    typer.echo(text, err=True)


@contextmanager
def trust_notes() -> Iterator[None]:
    """While it lasts, what the library logs about quarantined tools is a note on stderr."""
    logger = logging.getLogger("shortlist.trust")
    handler, propagates = _Notes(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _Notes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"note: {record.getMessage()}")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 tool, 2 tools."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def plain_table(*columns: str, right: Collection[str] = (), filling: str | None = None) -> Table:
    """A table with a line under its head and no other rules.

    Args:
        columns: heads.
        right: those whose cells are flush right.
        filling: the one that takes what room a terminal has left and is cut where that is little.
    """
    from rich import box
    from rich.table import Table

    fill = filling is not None and not _unbounded(console())
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, expand=fill
    )
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if fill and column == filling else None,
        )
    return table


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while tools are encoded, if stderr is a terminal; it goes when it is done.

    Yields:
        What to call with (tools encoded, tools to encode).
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    err = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
