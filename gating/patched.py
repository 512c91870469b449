"""Masks of the next catalog version, made from those of the last one."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..retrieval.change import Change, patched
from .compiled import CompiledGate
from .condition import Annotation
from .matcher import Mask, Matcher
from .pattern import Pattern
from .rule import Rule


class PatchedMatcher:
    """What a `Matcher` of the next version says, with only the rows that differ looked at.

    Args:
        before: the gate compiled for the last version.
        change: from that version to the next.
    """

    def __init__(self, before: CompiledGate, change: Change) -> None:
        self._before = before
        self._change = change
        self._concerned = dict(before.concerned)
        self._fresh = Matcher(change.changed())

    def meant(self, pattern: Pattern) -> Mask:
        """Rows a pattern means, shape (n,)."""
        known = self._before.meant.get(pattern)
        if known is None:
            return self._whole.meant(pattern)
        return self._patched(known, self._fresh.meant(pattern))

    def annotated(self, condition: Annotation) -> Mask:
        """Rows annotated as the condition asks, shape (n,)."""
        known = self._before.annotated.get(condition)
        if known is None:
            return self._whole.annotated(condition)
        return self._patched(known[0], self._fresh.annotated(condition))

    def concerned(self, rule: Rule) -> Mask:
        """Rows a rule concerns, shape (n,)."""
        return self._patched(self._concerned[rule], self._fresh.concerned(rule))

    @cached_property
    def _whole(self) -> Matcher:
        """For what the last version had no need of."""
        return Matcher(self._change.tools)

    def _patched(self, mask: Mask, fresh: Mask) -> Mask:
        return patched(mask, len(self._change.tools), self._change.rows, np.asarray(fresh))
