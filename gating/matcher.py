"""Finds the rows of a catalog version that rules and patterns match."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.pattern import Pattern, fold
from ..errors import ConfigError
from .condition import Mask
from .rules import Rule
from .state import Scalar, json_key

#: Numbers of rows, shape (m,).
Rows = NDArray[np.intp]
#: Text to the rows of the tools that have it.
_Table = dict[str, list[int]]
#: Globs of requests whose rows are remembered.
_CACHED_GLOBS = 64


class Matcher:
    """Masks over the rows of a catalog version for patterns, annotations and rules.

    Patterns that grant match exactly. Patterns that deny match exactly or folded, which ignores
    letter case and character width (see `pattern.fold`).

    Args:
        tools: tools of the version, in order of row.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        # Keys: pattern and folded; globs of servers and folded; annotation and value.
        self._masks: dict[Hashable, Mask] = {}
        self._rows_of_globs: dict[str, Rows] = {}
        self._texts_for_globs = _Texts(tools, folded=False)
        self.free_tables()

    def free_tables(self) -> None:
        """Free the lookup tables. Masks that were made stay."""
        self._exact = _Texts(self._tools, folded=False)
        self._folded = _Texts(self._tools, folded=True)
        self._changed_by_folding: _Texts | None = None
        self._annotations: list[Mapping[str, Any]] | None = None

    def rows_matching(self, pattern: Pattern, *, folded: bool = False) -> Mask:
        """Rows a pattern matches, shape (n,); with `folded`, exactly or folded.

        If both masks are equal, they are one object.
        """
        key = pattern, folded
        if key not in self._masks:
            mask = self._rows_of_pattern(pattern, folded)
            if folded and bool((mask == (exact := self.rows_matching(pattern))).all()):
                mask = exact
            self._masks[key] = mask
        return self._masks[key]

    def granted(self, glob: str) -> Rows:
        """Rows that a glob in `allowed` matches exactly; none if it is not a valid glob."""
        rows = self._rows_of_globs.get(glob)
        if rows is None:
            try:
                rows = np.flatnonzero(self._texts_for_globs.matching(Pattern(glob)))
            except ConfigError:
                rows = np.empty(0, np.intp)
            if len(self._rows_of_globs) >= _CACHED_GLOBS:
                self._rows_of_globs.clear()
            # Requests repeat their globs.
            self._rows_of_globs[glob] = rows
        return rows

    def annotated(self, name: str, value: Scalar) -> Mask:
        """Rows whose annotation has this value, shape (n,)."""
        key = name, json_key(value)
        return self._cached_mask(key, lambda: self._rows_with_annotation(name, value))

    def rows_of_rule(self, rule: Rule, *, folded: bool = False) -> Mask:
        """Rows that all selectors of a rule match, shape (n,); with `folded`, exactly or folded."""
        mask = np.ones(len(self._tools), np.bool_)
        if rule.server is not None:
            globs = rule.server
            mask &= self._cached_mask((globs, folded), lambda: self._rows_of_servers(globs, folded))
        if rule.tools is not None:
            chosen = [self.rows_matching(pattern, folded=folded) for pattern in rule.tools]
            mask &= np.logical_or.reduce(chosen)
        for hint in rule.annotations:
            mask &= self.annotated(hint.name, hint.value)
        return mask

    def _cached_mask(self, key: Hashable, make: Callable[[], Mask]) -> Mask:
        if key not in self._masks:
            self._masks[key] = make()
        return self._masks[key]

    def _rows_of_pattern(self, pattern: Pattern, folded: bool) -> Mask:
        if not folded:
            return self._exact.matching(pattern)
        return self.rows_matching(pattern) | self._texts_for(pattern).matching(pattern)

    def _rows_with_annotation(self, name: str, value: Scalar) -> Mask:
        if self._annotations is None:
            self._annotations = [with_default_hints(tool.annotations) for tool in self._tools]
        values = [annotations.get(name) for annotations in self._annotations]
        # In JSON, true is not 1.
        is_bool = isinstance(value, bool)
        matches = [isinstance(actual, bool) == is_bool and actual == value for actual in values]
        return np.array(matches, np.bool_)

    def _rows_of_servers(self, globs: tuple[Pattern, ...], folded: bool) -> Mask:
        mask = self._exact.rows_of_servers(globs)
        return mask | self._folded.rows_of_servers(globs) if folded else mask

    def _texts_for(self, pattern: Pattern) -> _Texts:
        """The folded texts to try after the exact ones.

        All texts, if folding changes the pattern. Otherwise only those that folding changes.
        """
        if pattern.text != pattern.folded:
            return self._folded
        if self._changed_by_folding is None:
            changed = [
                row
                for row, tool in enumerate(self._tools)
                for text in (f"{tool.server or ''}/{tool.name}/{tool.id}",)
                if fold(text) != text
            ]
            self._changed_by_folding = _Texts(self._tools, folded=True, rows=changed)
        return self._changed_by_folding


def _plain_id(tool: Tool) -> str | None:
    # Patterns of names also match an id without a slash.
    return tool.id if "/" not in tool.id and tool.id != tool.name else None


def _qualified(tool: Tool) -> str | None:
    """`server/name` of a tool that has another id; None for other tools."""
    name = None if tool.server is None else f"{tool.server}/{tool.name}"
    return None if name == tool.id else name


_TEXT_OF_KIND: Mapping[str, Callable[[Tool], str | None]] = {
    "id": lambda tool: tool.id,
    "qualified": _qualified,
    "name": lambda tool: tool.name,
    "plain_id": _plain_id,
    "server": lambda tool: tool.server,
}


class _Texts:
    """Rows of tools by their ids, names and servers, exact or folded.

    Args:
        tools: tools of a catalog version, in order of row.
        folded: whether the texts are folded.
        rows: rows of the tools to match; all by default.
    """

    def __init__(
        self, tools: Sequence[Tool], *, folded: bool, rows: Sequence[int] | None = None
    ) -> None:
        self._tools = tools
        self._rows = range(len(tools)) if rows is None else rows
        self._is_folded = folded
        # Made when first needed.
        self._tables: dict[str, _Table] = {}

    def matching(self, pattern: Pattern) -> Mask:
        """Rows that a pattern matches, shape (n,)."""
        mask = np.zeros(len(self._tools), np.bool_)
        kinds: list[str] = []
        if pattern.matches_ids(self._is_folded):
            kinds += ["id", "qualified"]
        if pattern.matches_names:
            kinds += ["name", "plain_id"]
        for kind in kinds:
            rows = self._table(kind)
            for text in pattern.matching_texts(rows, folded=self._is_folded):
                mask[rows[text]] = True
        return mask

    def rows_of_servers(self, globs: Sequence[Pattern]) -> Mask:
        """Rows of the servers that one of the globs matches, shape (n,)."""
        mask = np.zeros(len(self._tools), np.bool_)
        for server, rows in self._table("server").items():
            if any(glob.matches(server, folded=self._is_folded) for glob in globs):
                mask[rows] = True
        return mask

    def _table(self, kind: str) -> _Table:
        table = self._tables.get(kind)
        if table is None:
            table = {}
            for row, text in self._rows_with_texts(kind, self._tools, self._rows):
                table.setdefault(text, []).append(row)
            self._tables[kind] = table
        return table

    def _rows_with_texts(
        self, kind: str, tools: Sequence[Tool], rows: Iterable[int]
    ) -> list[tuple[int, str]]:
        """Rows with their text of a kind, for the tools that have one."""
        form, text_of = fold if self._is_folded else str, _TEXT_OF_KIND[kind]
        return [(row, form(text)) for row in rows if (text := text_of(tools[row])) is not None]


READ_ONLY, DESTRUCTIVE = "readOnlyHint", "destructiveHint"
IDEMPOTENT, OPEN_WORLD = "idempotentHint", "openWorldHint"
#: Model Context Protocol, schema 2025-06-18, ToolAnnotations.
HINT_DEFAULTS: Mapping[str, bool] = {
    READ_ONLY: False,
    DESTRUCTIVE: True,
    IDEMPOTENT: False,
    OPEN_WORLD: True,
}


def with_default_hints(annotations: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Annotations in which missing and non-boolean hints have their default values.

    `destructiveHint` is true by default, but false for a read-only tool that does not set it.
    """
    values = annotations or {}
    declared = {
        name: value for name in HINT_DEFAULTS if isinstance(value := values.get(name), bool)
    }
    defaults = {**HINT_DEFAULTS, DESTRUCTIVE: not declared.get(READ_ONLY, HINT_DEFAULTS[READ_ONLY])}
    return {**values, **defaults, **declared}
