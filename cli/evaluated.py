"""Output of an evaluation: tables, problems, progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from .console import fitted, note, plain_table, show

if TYPE_CHECKING:
    from ..evals.dataset import Malformed
    from ..evals.misses import Miss
    from ..evals.regression import MetricChange
    from ..evals.report import EvaluationResult
    from ..evals.table import Table

_SHOWN = 20
"""Malformed rows named in text; the JSON names all."""


def tell(found: EvaluationResult, failed: Mapping[str, Sequence[Miss]] | None) -> None:
    """Print the figures, and the failed queries where they were asked for."""
    from ..evals import report

    size = f"{found.tools:,} tools, {found.queries:,} queries"
    show_table(
        f"{size}; per cent [95 % interval]", report.quality_table(found.summaries).transposed()
    )
    if found.by is not None:
        show_table(f"by {found.by}", report.breakdown_table(found.outcomes, found.by))
    tell_ran_as(report.ran_as(found.outcomes))
    for name, every in (failed or {}).items():
        typer.echo(f"\n{name}: {len(every)} of {found.queries} queries failed")
        for miss in every:
            typer.echo("\n".join(map(fitted, str(miss).splitlines())))


def tell_ran_as(another: Mapping[str, Mapping[str, int]]) -> None:
    """Say which queries another tier answered than the one asked, and why."""
    for name, instead in another.items():
        for what, count in instead.items():
            note(f"{name}: {count} queries ran otherwise: {what}")


def tell_difference(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    changes: Sequence[MetricChange],
    *,
    quiet: bool,
) -> None:
    """Print the difference to a baseline; where quiet, only whether it is of the same data."""
    from ..evals.report import difference_table

    for side in ("tools", "queries"):
        if before.get(side) != now[side]:
            note(f"note: the baseline is of {before.get(side)} {side}, this run of {now[side]}")
    if not quiet:
        show_table("against the baseline", difference_table(changes))


def show_table(title: str, table: Table) -> None:
    """Print a table under a title."""
    shown = plain_table(*table.columns, right=frozenset(table.columns[1:]))
    for column in shown.columns:
        column.no_wrap, column.overflow = False, "fold"
    for row in table.rows:
        shown.add_row(*("–" if cell is None else str(cell) for cell in row))
    show("", title, shown)


def tell_malformed(malformed: Sequence[Malformed]) -> None:
    """Say how many rows were bad, and name some."""
    if not malformed:
        return
    dropped = sum(one.dropped for one in malformed)
    note(f"{len(malformed)} malformed rows, {dropped} left out:")
    for one in malformed[:_SHOWN]:
        note(f"  {one}")
    if len(malformed) > _SHOWN:
        note(f"  and {len(malformed) - _SHOWN} more; --json names all")
