"""Rows by the ids and names of their tools."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from .change import Change

# Before a name that reads like an id; no name has a line break.
_NAME = "\n"


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Rows of a catalog version by id and by name.

    Args:
        rows: tool id to its row.
        exact: id or name to the rows that have it.
        folded: the same without regard to letter case.
        order: the rows in order of tool id, shape (n,); None where they are numbered so.
    """

    rows: dict[str, int]
    exact: dict[str, list[int]]
    folded: dict[str, list[int]]
    order: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, tools: Sequence[Tool]) -> Self:
        """Of tools in order of id."""
        made = cls({}, {}, {})
        for row, tool in enumerate(tools):
            made.rows[tool.id] = row
            for held, name in made._places(tool):
                held.setdefault(name, []).append(row)
        return made

    def patched(self, change: Change) -> Names:
        """The names of the next version: a copy with the change applied."""
        gone = change.gone()
        if not gone and not len(change.rows):
            return self
        order = np.arange(len(change.before)) if self.order is None else self.order
        made = Names(dict(self.rows), dict(self.exact), dict(self.folded), change.ordered(order))
        for row in gone:
            made._remove(row, change.before[row])
        for row in change.rows.tolist():
            tool = change.tools[row]
            made.rows[tool.id] = row
            for held, name in made._places(tool):
                held[name] = [*held.get(name, ()), row]
        return made

    def by_id(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of a mask in order of tool id, shape (m,)."""
        return np.flatnonzero(mask) if self.order is None else self.order[mask[self.order]]

    def named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`, or else but for letter case.

        A name with a slash counts only where no id reads so: nothing *named* like the id of another
        tool stands beside it.
        """
        name = asked_name(text)
        folded = name.casefold()
        for held, key in (
            (self.exact, name),
            (self.folded, folded),
            (self.exact, _NAME + name),
            (self.folded, _NAME + folded),
        ):
            if rows := held.get(key):
                return rows
        return ()

    def _remove(self, row: int, tool: Tool) -> None:
        del self.rows[tool.id]
        for held, name in self._places(tool):
            # A new list: the one there is the version before's as well.
            if left := [one for one in held[name] if one != row]:
                held[name] = left
            else:
                del held[name]

    def _places(self, tool: Tool) -> Iterator[tuple[dict[str, list[int]], str]]:
        name = tool.name
        if "/" in name and name != tool.id:
            name = _NAME + name
        for key in {tool.id, name}:
            yield self.exact, key
        for key in {tool.id.casefold(), name.casefold()}:
            yield self.folded, key


def asked_name(text: str) -> str:
    """The id or name that a request may be, without blanks and quotes around it."""
    # Names and ids are held in NFC, see `Tool`.
    return unicodedata.normalize("NFC", text).strip().strip("`'\"")
