"""A table of figures: headings and rows of cells that are ready to show."""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Figures as they are shown.

    Args:
        columns: headings; the first column holds text, the others are set right.
        rows: cells as they are shown, so that rounding is the writer's; None is shown as a dash.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def transposed(self) -> Table:
        """The same with rows as columns."""
        head, *rows = zip(self.columns, *self.rows, strict=True)
        return Table(tuple(map(str, head)), tuple(rows))
