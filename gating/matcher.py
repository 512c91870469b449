"""Which rows of a catalog version rules and patterns mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from .condition import Annotation
from .hints import hints
from .pattern import Pattern
from .rule import Rule

Mask = NDArray[np.bool_]


class Matching(Protocol):
    """What a `Matcher` says."""

    def meant(self, pattern: Pattern) -> Mask: ...  # noqa: D102
    def annotated(self, condition: Annotation) -> Mask: ...  # noqa: D102
    def concerned(self, rule: Rule) -> Mask: ...  # noqa: D102


class Matcher:
    """Patterns, annotations and rules made into masks over tools, each worked out once.

    Args:
        tools: of one catalog version, in order of row.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._patterns: dict[Pattern, Mask] = {}
        self._annotations: dict[Annotation, Mask] = {}

    def meant(self, pattern: Pattern) -> Mask:
        """Rows a pattern means, shape (n,)."""
        if pattern not in self._patterns:
            if "/" in pattern.text:
                mask = self._fitting(pattern, self._ids) | self._fitting(pattern, self._qualified)
            else:
                mask = self._fitting(pattern, self._names)
                # An id of one's own choosing without a slash is a name as well.
                if self._plain_ids:
                    plain = pattern.fitting(list(self._plain_ids))
                    mask[[self._plain_ids[tool_id] for tool_id in plain]] = True
            self._patterns[pattern] = mask
        return self._patterns[pattern]

    def annotated(self, condition: Annotation) -> Mask:
        """Rows annotated as the condition asks, shape (n,)."""
        if condition not in self._annotations:
            truth, value = condition.key
            self._annotations[condition] = np.fromiter(
                (
                    isinstance(said := given.get(condition.name), bool) == truth and said == value
                    for given in self._hints
                ),
                np.bool_,
                len(self._tools),
            )
        return self._annotations[condition]

    def concerned(self, rule: Rule) -> Mask:
        """Rows a rule concerns, shape (n,)."""
        mask = np.ones(len(self._tools), np.bool_)
        if rule.server is not None:
            mask &= self._served(rule.server)
        if rule.tools is not None:
            mask &= np.logical_or.reduce([self.meant(pattern) for pattern in rule.tools])
        for condition in rule.annotations:
            mask &= self.annotated(condition)
        return mask

    def _fitting(self, pattern: Pattern, texts: Mapping[str, Sequence[int]]) -> Mask:
        mask = np.zeros(len(self._tools), np.bool_)
        for text in pattern.fitting(texts):
            mask[texts[text]] = True
        return mask

    def _served(self, globs: Sequence[Pattern]) -> Mask:
        mask = np.zeros(len(self._tools), np.bool_)
        for server, rows in self._servers.items():
            if any(glob.fits(server) for glob in globs):
                mask[rows] = True
        return mask

    @cached_property
    def _ids(self) -> Mapping[str, Sequence[int]]:
        return {tool.id: [row] for row, tool in enumerate(self._tools)}

    @cached_property
    def _plain_ids(self) -> Mapping[str, int]:
        return {
            tool.id: row
            for row, tool in enumerate(self._tools)
            if "/" not in tool.id and tool.id != tool.name
        }

    @cached_property
    def _qualified(self) -> Mapping[str, Sequence[int]]:
        """Rows by `server/name`, of the tools whose id is another."""
        return _grouped(
            (f"{tool.server}/{tool.name}", row)
            for row, tool in enumerate(self._tools)
            if tool.server is not None and tool.id != f"{tool.server}/{tool.name}"
        )

    @cached_property
    def _names(self) -> Mapping[str, Sequence[int]]:
        return _grouped((tool.name, row) for row, tool in enumerate(self._tools))

    @cached_property
    def _servers(self) -> Mapping[str, Sequence[int]]:
        return _grouped(
            (tool.server, row) for row, tool in enumerate(self._tools) if tool.server is not None
        )

    @cached_property
    def _hints(self) -> Sequence[Mapping[str, Any]]:
        return [hints(tool.annotations) for tool in self._tools]


def _grouped(pairs: Any) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for text, row in pairs:
        rows.setdefault(text, []).append(row)
    return rows
