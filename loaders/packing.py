"""Packing: which tools get how much detail within a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ..errors import RequestError
from .detail import Detail

WORTH: Mapping[Detail, float] = {
    Detail.NAME: 0.05,
    Detail.SUMMARY: 0.15,
    Detail.SIGNATURE: 0.8,
    Detail.FULL: 1.0,
}
"""What a level is worth of the whole definition. A choice, not a fit: with a signature a tool can
be called, with less it can only be asked for."""
_LEAST = 0.01
"""Share of the best score that the worst is worth, where scores are not positive."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool to be packed.

    Args:
        tool_id: its id.
        score: how well it fits, any scale on which more is better.
        costs: detail to tokens, for each level it can be shown at; at least one.
    """

    tool_id: str
    score: float
    costs: Mapping[Detail, int]


def pack(candidates: Sequence[Candidate], budget: int) -> dict[str, Detail]:
    """The detail of each tool that fits, in the order given; the costs never exceed the budget.

    The first is shown at its highest level that fits, before anything else. Then the step with
    most worth per token is taken again and again, a step being from a tool's present level to any
    higher one, as long as one fits. Greedy by marginal density is what it is because an exact
    knapsack over 4 levels and thousands of tokens takes milliseconds and gains less than the worth
    of one step: after the first tool, all steps are small against the budget.

    Args:
        candidates: in rank order; no two with the same id.
        budget: tokens.

    Raises:
        RequestError: a score that is not finite.
    """
    packed: dict[str, Detail] = {}
    room = budget
    values = _values([candidate.score for candidate in candidates])
    for candidate in candidates[:1]:
        fitting = [level for level, cost in candidate.costs.items() if cost <= room]
        if fitting:
            packed[candidate.tool_id] = max(fitting)
            room -= candidate.costs[max(fitting)]
    steps: dict[int, tuple[float, Detail, int]] = {}
    for at in range(1, len(candidates)):
        if step := _step(candidates[at], None, values[at], room):
            steps[at] = step
    while steps:
        at = max(steps, key=lambda place: (steps[place][0], -place))
        _, level, cost = steps.pop(at)
        candidate = candidates[at]
        if cost <= room:
            packed[candidate.tool_id] = level
            room -= cost
        if step := _step(candidate, packed.get(candidate.tool_id), values[at], room):
            steps[at] = step
    return {c.tool_id: packed[c.tool_id] for c in candidates if c.tool_id in packed}


def _step(
    candidate: Candidate, present: Detail | None, value: float, room: int
) -> tuple[float, Detail, int] | None:
    """The best way up that fits: worth per token, level, tokens."""
    worth, spent = (0.0, 0) if present is None else (WORTH[present], candidate.costs[present])
    best: tuple[float, Detail, int] | None = None
    for level, cost in sorted(candidate.costs.items()):
        added = cost - spent
        if (present is not None and level <= present) or added > room:
            continue
        density = value * (WORTH[level] - worth) / max(added, 1)
        if best is None or (density, level) > best[:2]:
            best = density, level, added
    return best


def _values(scores: Sequence[float]) -> list[float]:
    """Scores as positive values; shifted where some are not, as a cross-encoder's logits are."""
    if not all(isfinite(score) for score in scores):
        raise RequestError(f"scores to pack by must be finite, got {list(scores)}")
    if not scores or min(scores) > 0:
        return list(scores)
    lowest, span = min(scores), max(scores) - min(scores)
    return [score - lowest + (_LEAST * span or 1.0) for score in scores]
