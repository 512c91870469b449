"""Which rows of a catalog version rules and patterns mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..catalog import Tool
from .condition import Mask
from .conditions import json_key
from .hints import hints
from .pattern import Pattern, fold
from .rule import Rule
from .state import Scalar

_Rows = Mapping[str, Sequence[int]]


class Matcher:
    """Masks over the rows of a catalog version for patterns, annotations and rules.

    What grants is matched exactly. What denies is matched exactly or folded: letter case and
    character width are ignored as well (see `pattern.fold`).

    Args:
        tools: of the version, in order of row.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._masks: dict[tuple[Pattern, bool], Mask] = {}
        self._annotations: dict[tuple[str, tuple[bool, Scalar]], Mask] = {}
        self.release()

    def release(self) -> None:
        """Free the lookup tables, which are made again when needed; masks are kept."""
        count = len(self._tools)
        self._exact = _Texts(self._tools, range(count), folded=False)
        self._folded = _Texts(self._tools, range(count), folded=True)
        self._changed: _Texts | None = None
        self._hints: list[Mapping[str, Any]] | None = None

    def meant(self, pattern: Pattern, *, folded: bool = False) -> Mask:
        """Rows a pattern matches, shape (n,); with `folded`, exactly or folded.

        Both are one object where they are equal.
        """
        if (pattern, folded) not in self._masks:
            if folded:
                exact = self.meant(pattern)
                wider = exact | self._texts_for(pattern).matching(pattern)
                mask = exact if bool((wider == exact).all()) else wider
            else:
                mask = self.matching(pattern)
            self._masks[pattern, folded] = mask
        return self._masks[pattern, folded]

    def matching(self, pattern: Pattern) -> Mask:
        """Rows a pattern matches exactly, shape (n,); not remembered."""
        return self._exact.matching(pattern)

    def annotated(self, name: str, value: Scalar) -> Mask:
        """Rows whose annotation has this value, shape (n,)."""
        truth, _ = key = json_key(value)
        if (name, key) not in self._annotations:
            if self._hints is None:
                self._hints = [hints(tool.annotations) for tool in self._tools]
            self._annotations[name, key] = np.fromiter(
                (
                    isinstance(said := given.get(name), bool) == truth and said == value
                    for given in self._hints
                ),
                np.bool_,
                len(self._tools),
            )
        return self._annotations[name, key]

    def concerned(self, rule: Rule, *, folded: bool = False) -> Mask:
        """Rows that all selectors of a rule match, shape (n,); with `folded`, exactly or folded."""
        mask = np.ones(len(self._tools), np.bool_)
        if rule.server is not None:
            mask &= self._served(rule.server, folded)
        if rule.tools is not None:
            chosen = [self.meant(pattern, folded=folded) for pattern in rule.tools]
            mask &= np.logical_or.reduce(chosen)
        for one in rule.annotations:
            mask &= self.annotated(one.name, one.value)
        return mask

    def _texts_for(self, pattern: Pattern) -> _Texts:
        """The folded texts to try after an exact match, fewer where those left match the same."""
        if pattern.text != fold(pattern.text):
            return self._folded
        if self._changed is None:
            changed = [
                row
                for row, tool in enumerate(self._tools)
                for text in (f"{tool.server or ''}/{tool.name}/{tool.id}",)
                if fold(text) != text
            ]
            self._changed = _Texts(self._tools, changed, folded=True)
        return self._changed

    def _served(self, globs: Sequence[Pattern], folded: bool) -> Mask:
        mask = self._exact.served(globs)
        return mask | self._folded.served(globs) if folded else mask


class _Texts:
    """Ids, names and servers of tools, as they are or folded, and the rows that have them."""

    def __init__(self, tools: Sequence[Tool], rows: Sequence[int], *, folded: bool) -> None:
        self._tools = tools
        self._rows = rows
        self._is_folded = folded
        self._form: Callable[[str], str] = fold if folded else str

    def matching(self, pattern: Pattern) -> Mask:
        mask = np.zeros(len(self._tools), np.bool_)
        tables: list[_Rows] = []
        if pattern.by_id(self._is_folded):
            tables += [self._ids, self._qualified]
        if pattern.by_name:
            tables += [self._names, self._plain_ids]
        for rows in tables:
            for text in pattern.fitting(rows, folded=self._is_folded):
                mask[rows[text]] = True
        return mask

    def served(self, globs: Sequence[Pattern]) -> Mask:
        mask = np.zeros(len(self._tools), np.bool_)
        for server, rows in self._servers.items():
            if any(glob.fits(server, folded=self._is_folded) for glob in globs):
                mask[rows] = True
        return mask

    def _numbered(self) -> Iterator[tuple[int, Tool]]:
        return ((row, self._tools[row]) for row in self._rows)

    @cached_property
    def _ids(self) -> _Rows:
        return self._grouped((tool.id, row) for row, tool in self._numbered())

    @cached_property
    def _plain_ids(self) -> _Rows:
        # An id of one's own choosing without a slash is a name as well.
        return self._grouped(
            (tool.id, row)
            for row, tool in self._numbered()
            if "/" not in tool.id and tool.id != tool.name
        )

    @cached_property
    def _qualified(self) -> _Rows:
        """Rows by `server/name`, of the tools whose id is another."""
        return self._grouped(
            (f"{tool.server}/{tool.name}", row)
            for row, tool in self._numbered()
            if tool.server is not None and tool.id != f"{tool.server}/{tool.name}"
        )

    @cached_property
    def _names(self) -> _Rows:
        return self._grouped((tool.name, row) for row, tool in self._numbered())

    @cached_property
    def _servers(self) -> _Rows:
        return self._grouped(
            (tool.server, row) for row, tool in self._numbered() if tool.server is not None
        )

    def _grouped(self, pairs: Iterable[tuple[str, int]]) -> _Rows:
        rows: dict[str, list[int]] = {}
        for text, row in pairs:
            rows.setdefault(self._form(text), []).append(row)
        return rows
