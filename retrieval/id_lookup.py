"""Rows by the ids and names of their tools."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.catalog import differing
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
        by_name: id or name to the ids of the tools that have it.
        by_folded_name: the same without regard to letter case, for ids and names that are not in
            `by_name` in this form already.
        by_spoken_name: name of several words to the ids of the tools that have it, as people write
            it: `list files` and `disk list files` for `disk/list_files` and `disk/listFiles`.
        present_rows: mask of the rows that have a tool, shape (n,); None for all rows.
    """

    rows: dict[str, int]
    by_name: dict[str, tuple[str, ...]]
    by_folded_name: dict[str, tuple[str, ...]]
    by_spoken_name: dict[str, tuple[str, ...]]
    present_rows: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, tools: Sequence[Tool], present: NDArray[np.bool_] | None = None) -> Self:
        """The names of tools in order of id.

        Args:
            tools: tools by row.
            present: mask of the rows whose tool still exists; None for all rows.
        """
        return cls({}, {}, {}, {}).changed((), tools, present)

    def changed(
        self,
        earlier_tools: Sequence[Tool],
        tools: Sequence[Tool],
        present: NDArray[np.bool_] | None = None,
    ) -> Self:
        """The names of other tools. Only those of tools that differ are computed.

        Args:
            earlier_tools: tools by row that these names are of.
            tools: as for `of`.
            present: as for `of`.
        """
        before, now = _present(earlier_tools, self.present_rows), _present(tools, present)
        was, is_now = differing(before, now)
        kept = set(map(id, before[was])).intersection(map(id, now[is_now]))
        removed = _entries(tool for tool in before[was] if id(tool) not in kept)
        added = _entries(tool for tool in now[is_now] if id(tool) not in kept)
        tables = (self.by_name.copy(), self.by_folded_name.copy(), self.by_spoken_name.copy())
        for table, removed_ids, added_ids in zip(tables, removed, added, strict=True):
            for key, ids in removed_ids.items():
                table[key] = tuple(tool_id for tool_id in table[key] if tool_id not in ids)
                if not table[key]:
                    del table[key]
            for key, ids in added_ids.items():
                table[key] = (*table.get(key, ()), *ids)
        rows = range(len(tools)) if present is None else np.flatnonzero(present).tolist()
        # In order of row, as those before.
        all_ids = list(self.rows)
        all_ids[was] = [tool.id for tool in now[is_now]]
        return type(self)(dict(zip(all_ids, rows, strict=True)), *tables, present)

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
            if ids := self.by_name.get(prefix + name):
                return self._rows_of(ids)
            same_folded = (
                table.get(prefix + folded, ()) for table in (self.by_name, self.by_folded_name)
            )
            if all_ids := {tool_id for ids in same_folded for tool_id in ids}:
                return self._rows_of(all_ids)
        return self._rows_of(self.by_spoken_name.get(_as_words(name), ()))

    def _rows_of(self, ids: Collection[str]) -> Sequence[int]:
        return sorted(self.rows[tool_id] for tool_id in ids)


def _present(tools: Sequence[Tool], present: NDArray[np.bool_] | None) -> Sequence[Tool]:
    return tools if present is None else list(compress(tools, present.tolist()))


_Ids = dict[str, dict[str, None]]
"""Key of a table to the ids that have it, in order."""


def _entries(tools: Iterable[Tool]) -> tuple[_Ids, _Ids, _Ids]:
    """The entries `by_name`, `by_folded_name` and `by_spoken_name` of tools."""
    exact: _Ids = {}
    folded: _Ids = {}
    spelled: _Ids = {}
    for tool in tools:
        tool_id, name = tool.id, tool.name
        for key in {tool_id, _NAME_MARK + name if "/" in name and name != tool_id else name}:
            exact.setdefault(key, {})[tool_id] = None
            if (folded_key := key.casefold()) != key:
                folded.setdefault(folded_key, {})[tool_id] = None
        if "/" not in name:
            # With the server's name too, so that a stranger's `github_search` never comes alone.
            for key in {_as_words(name), _as_words(tool_id)}:
                if " " in key:
                    spelled.setdefault(key, {})[tool_id] = None
    return exact, folded, spelled


def _as_words(name: str) -> str:
    """The words of a name, in lower case, with a blank between."""
    if name.isascii() and name.islower() and name.replace("_", "").isalpha():
        return name.replace("_", " ")
    return identifiers_as_words(name).casefold()


def name_in_query(text: str) -> str:
    """The id or name that a query may be, without blanks and quotes around it."""
    # Names and ids are held in NFC, see `Tool`.
    return unicodedata.normalize("NFC", text).strip().strip("`'\"")
