"""The difference between two versions of a catalog, in rows of an index."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool

Number = TypeVar("Number", bound=np.generic)
NEW = -1
"""Source of a row whose definition the version before did not hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The rows that differ between a version and the next one.

    A tool that stays keeps its row. A new tool takes the row of a tool that went, else a row at the
    end. When more tools went than came, the last rows move into the free ones, so that rows are
    always 0 to n - 1. A change of m tools thus touches at most 2m rows.

    Args:
        before: the tools of the version before, by row.
        tools: the tools of the next version, by row.
        rows: rows of the next version whose tool or definition is another one, ascending.
        sources: for each of `rows` the row that the same definition had before, or `NEW`.
    """

    before: tuple[Tool, ...]
    tools: tuple[Tool, ...]
    rows: NDArray[np.int64]
    sources: NDArray[np.int64]

    @classmethod
    def between(cls, before: tuple[Tool, ...], rows: Mapping[str, int], catalog: Catalog) -> Change:
        """The change from indexed tools to a catalog.

        Args:
            before: the tools of the version before, by row.
            rows: their ids to their rows.
            catalog: the next version.
        """
        tools = list(before)
        kept = np.zeros(len(before), np.bool_)
        touched: dict[int, int] = {}
        fresh: list[Tool] = []
        for tool in catalog:
            row = rows.get(tool.id)
            if row is None:
                fresh.append(tool)
                continue
            kept[row] = True
            if tools[row] is not tool:
                if tools[row] != tool:
                    touched[row] = NEW
                tools[row] = tool
        free = np.flatnonzero(~kept).tolist()
        ends = count(len(before))
        # In order of id, so that the rows do not depend on the order of the catalog.
        for place, tool in enumerate(sorted(fresh, key=lambda one: one.id)):
            row = free[place] if place < len(free) else next(ends)
            tools[row : row + 1] = [tool]
            touched[row] = NEW
        size = len(catalog)
        holes = [row for row in free[len(fresh) :] if row < size]
        last = size + np.flatnonzero(kept[size:])
        for hole, row in zip(holes, last.tolist(), strict=True):
            tools[hole] = tools[row]
            touched[hole] = touched.pop(row, row)
        places = sorted(touched)
        return cls(
            before,
            tuple(tools[:size]),
            np.array(places, np.int64),
            np.array([touched[row] for row in places], np.int64),
        )

    def changed(self) -> list[Tool]:
        """The tools of `rows`."""
        return [self.tools[row] for row in self.rows.tolist()]

    def gone(self) -> list[int]:
        """Rows of the version before that hold something else now or are no more."""
        old = len(self.before)
        replaced = self.rows[self.rows < old].tolist()
        return [*replaced, *range(len(self.tools), old)]

    def ordered(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """The next version's rows by tool id.

        Args:
            order: the rows of the version before by tool id.
        """
        rows = order[~np.isin(order, self.gone())].tolist()
        fresh = sorted(self.rows.tolist(), key=lambda row: self.tools[row].id)
        places = [
            bisect_left(rows, self.tools[row].id, key=lambda one: self.tools[one].id)
            for row in fresh
        ]
        return np.insert(np.array(rows, np.int64), places, fresh)


def patched(
    values: NDArray[Number], size: int, rows: NDArray[np.int64], fresh: NDArray[Number]
) -> NDArray[Number]:
    """A copy of an array with other values in some rows, and perhaps more or fewer rows.

    Args:
        values: shape (n, ...).
        size: number of rows of the copy.
        rows: rows to set, shape (m,); rows from n on must be among them.
        fresh: their values, shape (m, ...).
    """
    copy = np.empty((size, *values.shape[1:]), values.dtype)
    shared = min(size, len(values))
    copy[:shared] = values[:shared]
    copy[rows] = fresh
    return copy
