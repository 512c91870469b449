"""Output: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


_PIPE_COLUMNS = 120
"""Columns of what does not go to a terminal, where `COLUMNS` is not set."""
_MAX_PIPE_COLUMNS = 1_000
"""Columns that a pipe gets at most."""
_COLUMN_GAP = 2
"""Spaces between two columns of a table."""


def console(*, err: bool = False) -> Console:
    """A console on stdout or stderr that lets a closed pipe be known."""
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError

    console = _Console(stderr=err, highlight=False, markup=False, emoji=False)
    if _is_pipe(console):
        console.width = _PIPE_COLUMNS
    return console


def show(*parts: RenderableType) -> None:
    """Print to stdout. A pipe gets 120 columns, or more where an id would not fit into them."""
    out = console()
    if not _is_pipe(out):
        for part in parts:
            out.print(part)
        return
    out.width = max([_PIPE_COLUMNS, *(_min_columns(out, part) for part in parts)])
    with out.capture() as printed:
        for part in parts:
            out.print(part)
    # Cells are padded; in a pipe the padding at the end of a line is noise.
    out.file.writelines(f"{line.rstrip(' ')}\n" for line in printed.get().splitlines())


def _min_columns(out: Console, part: RenderableType) -> int:
    """Columns in which no word of a part is broken."""
    from rich.measure import Measurement
    from rich.table import Table

    if isinstance(part, Table) and part.expand:
        return _PIPE_COLUMNS
    widest = out.options.update(max_width=_MAX_PIPE_COLUMNS)
    return Measurement.get(out, widest, part).minimum


def _is_pipe(console: Console) -> bool:
    return not console.is_terminal and "COLUMNS" not in os.environ


def write_json(value: Any) -> None:
    """Print JSON, in ASCII so that every terminal and every locale carries it."""
    typer.echo(json.dumps(value, indent=1))


def note(text: str) -> None:
    """Write a message for the user to stderr. On a terminal, lines are broken between words.

    Control characters and invisible ones are written out: the message may quote a stranger.
    """
    typer.echo("\n".join(wrapped(line) for line in visible(text).splitlines()), err=True)


def visible(text: str) -> str:
    """A text whose control characters are written out, as `text_cleaning.written_out` does."""
    if text.isascii() and all(line.isprintable() for line in text.split("\n")):
        return text  # the usual case; the import takes 100 ms
    from ..catalog.text_cleaning import written_out

    return written_out(text)


def first_lines(lines: Iterable[str], max_lines: int, rest: str = "--json") -> list[str]:
    """The first of some lines, and one that says how many there are besides, and where."""
    all_lines = list(lines)
    more = len(all_lines) - max_lines
    return [*all_lines[:max_lines], *([f"and {more:,} more: {rest}"] if more > 0 else ())]


def wrapped(line: str, used: int = 0) -> str:
    """A line for stderr. On a terminal, it is broken between words.

    Args:
        line: the text, without a line end.
        used: columns at the start of the first line that are already used.
    """
    if not sys.stderr.isatty():
        return line
    from shutil import get_terminal_size
    from textwrap import TextWrapper

    indent = "  " * line.startswith("  ")
    wrapper = TextWrapper(get_terminal_size().columns, " " * used + indent, f"{indent}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.fill(line.strip())[used:]


@contextmanager
def quarantine_as_notes() -> Iterator[None]:
    """While it lasts, what the library logs about quarantined tools is a note on stderr."""
    logger = logging.getLogger("shortlist.trust")
    handler, propagates = _QuarantineNotes(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _QuarantineNotes(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note(f"note: {record.getMessage()}")


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 tool, 2 tools."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def plain_table(
    *columns: str, right: Collection[str] = (), filling_column: str | None = None
) -> Table:
    """A table with a line under its head and no other rules.

    If the terminal is narrow, `filling_column` is cut and the others are wrapped.

    Args:
        columns: headings.
        right: columns aligned to the right, which are wrapped last.
        filling_column: the column that takes the remaining width.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, _COLUMN_GAP - 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        show_edge=False,
        expand=filling_column is not None,
    )
    for column in columns:
        fills = filling_column is not None and column == filling_column
        table.add_column(
            column,
            justify="right" if column in right else "left",
            no_wrap=fills or column in right,
            overflow="ellipsis" if fills else "fold",
            ratio=1 if fills else None,
        )
    return table


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A temporary progress bar on stderr while tools are encoded, if stderr is a terminal.

    Yields:
        A function to call with (tools encoded, tools to encode).
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    err = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


@contextmanager
def step_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar; yields what to call with the number of steps done since."""
    done = 0
    with progress(what) as bar:

        def advance(steps: int) -> None:
            nonlocal done
            done += steps
            bar(done, max(done, total))

        yield advance
