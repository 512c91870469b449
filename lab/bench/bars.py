"""The limits ("bars") for speed and size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Bar:
    """One limit and the measured value.

    Args:
        name: the limited quantity.
        limit: the limit.
        at: whether the limit is a maximum, a minimum, or an exact value.
        measured: the measured value; None if this run does not measure it.
        unit: unit of both; "x" for a ratio.
        reason: why it was not measured.
    """

    name: str
    limit: float
    at: Literal["most", "least", "exactly"]
    measured: float | None
    unit: str
    reason: str | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; None if not measured."""
        if self.measured is None:
            return None
        if self.at == "most":
            return self.measured <= self.limit
        if self.at == "least":
            return self.measured >= self.limit
        return self.measured == self.limit

    @property
    def verdict(self) -> str:
        """`pass`, `short` or `not measured`."""
        return {True: "pass", False: "short", None: "not measured"}[self.passed]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "bar": self.name,
            "limit": self.limit,
            "at": self.at,
            "measured": None if self.measured is None else round(self.measured, 4),
            "unit": self.unit,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def short(bars: Iterable[Bar]) -> list[Bar]:
    """The measured limits that are not met."""
    return [bar for bar in bars if bar.passed is False]
