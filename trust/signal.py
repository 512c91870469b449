"""A signal: concepts that, spoken of in one sentence, are a reason to doubt it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason to doubt a text.

    Args:
        name: short and stable.
        reason: for the person who decides whether the tool may be offered.
        weight: its share of what it takes to hold a tool back, see `scan.HELD_FROM`.
        needs: alternatives joined by `|`; a sentence must speak of one of each.
        unless: concepts that give the sentence an innocent reading.
    """

    name: str
    reason: str
    weight: float
    needs: tuple[str, ...]
    unless: str = ""

    groups: tuple[frozenset[str], ...] = field(init=False, repr=False)
    innocent: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Splits the alternatives once, for speed."""
        groups = tuple(frozenset(alternatives.split("|")) for alternatives in self.needs)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(
            self, "innocent", frozenset(self.unless.split("|") if self.unless else ())
        )

    def holds(self, concepts: Set[str]) -> bool:
        """Whether a sentence that speaks of these concepts gives this signal."""
        for group in self.groups:
            if group.isdisjoint(concepts):
                return False
        return self.innocent.isdisjoint(concepts)
