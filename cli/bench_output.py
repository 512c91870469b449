"""What the benchmarks show: where figures come from, what is being measured, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .console import console, note, plain_table, show

if TYPE_CHECKING:
    from ..evals.table import Table


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """What is being measured now, on stderr: a line that changes, or lines away from a terminal."""
    err = console(err=True)
    if not err.is_terminal:
        yield note
        return
    with err.status("reading") as status:
        yield status.update


def tell_origin(origin: dict[str, Any], what: str) -> None:
    """Machine, commit, versions, and what is measured on."""
    machine, versions = origin["machine"], origin["versions"]
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    show(
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; "
        f"commit {origin['commit'] or 'unknown'}; {what}",
        libraries,
    )


def show_table(title: str, table: Table) -> None:
    """A table under its title."""
    shown = plain_table(*table.columns, right=frozenset(table.columns[1:]))
    for row in table.rows:
        shown.add_row(*("–" if cell is None else str(cell) for cell in row))
    show("", title, shown)
