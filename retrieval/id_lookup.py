"""Rows by the ids and names of their tools."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..text import identifiers_as_words

# Before a name that reads like an id; no name has a line break.
_NAME_MARK = "\n"


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """Rows of a catalog version by id and by name.

    Versions share one object only if they show the very same tools: what is compiled over a version
    is kept by it.

    Args:
        rows: tool id to its row.
        by_name: id or name to the rows that have it.
        by_folded_name: the same without regard to letter case, for ids and names that are not in
            `by_name` in this form already.
        by_spoken_name: name of several words to the rows that have it, as people write it: `list
            files` and `disk list files` for `disk/list_files` and `disk/listFiles`.
        present_rows: mask of the rows that have a tool, shape (n,); None for all rows.
    """

    rows: dict[str, int]
    by_name: dict[str, list[int]]
    by_folded_name: dict[str, list[int]]
    by_spoken_name: dict[str, list[int]]
    present_rows: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, tools: Sequence[Tool], present: NDArray[np.bool_] | None = None) -> Self:
        """The names of tools in order of id.

        Args:
            tools: tools by row.
            present: mask of the rows whose tool still exists; None for all rows.
        """
        names = cls({}, {}, {}, {}, present)
        rows = range(len(tools)) if present is None else np.flatnonzero(present).tolist()
        for row in rows:
            tool = tools[row]
            names.rows[tool.id] = row
            for table, name in names._entries(tool):
                table.setdefault(name, []).append(row)
        return names

    def rows_in_id_order(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of a mask that have a tool, in order of tool id, shape (m,)."""
        return np.flatnonzero(mask if self.present_rows is None else mask & self.present_rows)

    def rows_named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`, or else but for letter case, or as words.

        A name with a slash counts only where no id reads so: nothing *named* like the id of another
        tool stands beside it.
        """
        name = name_in_query(text)
        folded = name.casefold()
        for prefix in ("", _NAME_MARK):
            if rows := self.by_name.get(prefix + name):
                return rows
            same_folded = (
                table.get(prefix + folded, ()) for table in (self.by_name, self.by_folded_name)
            )
            if all_rows := sorted({row for rows in same_folded for row in rows}):
                return all_rows
        return self.by_spoken_name.get(_as_words(name), ())

    def _entries(self, tool: Tool) -> Iterator[tuple[dict[str, list[int]], str]]:
        name = tool.name
        if "/" in name and name != tool.id:
            name = _NAME_MARK + name
        for key in {tool.id, name}:
            yield self.by_name, key
            if (folded := key.casefold()) != key:
                yield self.by_folded_name, folded
        if "/" not in name:
            # With the server's name too, so that a stranger's `github_search` never comes alone.
            for key in {_as_words(name), _as_words(tool.id)}:
                if " " in key:
                    yield self.by_spoken_name, key


def _as_words(name: str) -> str:
    """The words of a name, in lower case, with a blank between."""
    if name.isascii() and name.islower() and name.replace("_", "").isalpha():
        return name.replace("_", " ")
    return identifiers_as_words(name).casefold()


def name_in_query(text: str) -> str:
    """The id or name that a query may be, without blanks and quotes around it."""
    # Names and ids are held in NFC, see `Tool`.
    return unicodedata.normalize("NFC", text).strip().strip("`'\"")
