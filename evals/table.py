"""A table of figures, with formatted cells."""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of formatted figures.

    Args:
        columns: headings. The first column is text, the others are aligned right.
        rows: formatted cells; None is shown as a dash.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def transposed(self) -> Table:
        """The same with rows as columns."""
        head, *rows = zip(self.columns, *self.rows, strict=True)
        return Table(tuple(map(str, head)), tuple(rows))
