"""Packing: which tools get how much detail within a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from ..errors import RequestError
from .detail import Detail

WORTH: Mapping[Detail, float] = {
    Detail.NAME: 0.05,
    Detail.SUMMARY: 0.15,
    Detail.SIGNATURE: 0.8,
    Detail.FULL: 1.0,
}
"""Value of a level, relative to the full definition. Chosen, not fitted: with a signature a tool
can be called, with less only requested."""
_CELLS = 1_000
_NOTHING = -1
_LEAST = 0.01
"""Value of the worst tool relative to the best, if scores are not positive."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tool to fit into a token budget, with its costs.

    Args:
        tool_id: id of the tool.
        score: how well it fits; higher is better, on any scale.
        costs: detail to tokens, for each level it can be shown at; at least one.
    """

    tool_id: str
    score: float
    costs: Mapping[Detail, int]


def pack(candidates: Sequence[Candidate], budget: int) -> dict[str, Detail]:
    """The level of detail of each tool, within a token budget.

    The first tool gets its highest level that fits. If all others fit at a callable level, they all
    get it, and the remaining tokens go to full definitions. Otherwise they compete. Both cases are
    a knapsack problem, solved exactly by dynamic programming over at most `_CELLS` steps of tokens,
    with costs rounded up. A greedy choice by value per token is faster, but can leave a tool at its
    signature although its full definition would have fitted.

    Args:
        candidates: in rank order; ids must differ.
        budget: maximum number of tokens.

    Raises:
        RequestError: a score is not finite.
    """
    values = _values([candidate.score for candidate in candidates])
    best = {candidate.tool_id: max(candidate.costs) for candidate in candidates}
    if sum(candidate.costs[best[candidate.tool_id]] for candidate in candidates) <= budget:
        return best
    packed: dict[str, Detail] = {}
    room = max(budget, 0)
    for candidate in candidates[:1]:
        fitting = [level for level, cost in candidate.costs.items() if cost <= room]
        if fitting:
            packed[candidate.tool_id] = max(fitting)
            room -= candidate.costs[max(fitting)]
    others, worths = candidates[1:], values[1:]
    least = {other.tool_id: callable_level(other.costs) for other in others}
    needed = sum(other.costs[least[other.tool_id]] for other in others)
    if needed > room:
        return packed | _knapsack(others, worths, room)
    raised = [replace(one, costs=_above(one.costs, least[one.tool_id])) for one in others]
    return packed | least | _knapsack(raised, worths, room - needed)


def _above(costs: Mapping[Detail, int], least: Detail) -> dict[Detail, int]:
    """What each higher level costs beyond a level."""
    return {level: cost - costs[least] for level, cost in costs.items() if level > least}


def callable_level(costs: Mapping[Detail, int]) -> Detail:
    """The cheapest level at which a tool can be called; without one, its highest level.

    Args:
        costs: detail to tokens.
    """
    able = [level for level in costs if level >= Detail.SIGNATURE]
    return min(able, key=lambda level: (costs[level], -level)) if able else max(costs)


def _knapsack(
    candidates: Sequence[Candidate], values: Sequence[float], room: int
) -> dict[str, Detail]:
    step = -(-room // _CELLS) or 1
    cells = room // step + 1
    worth = np.zeros(cells)  # the most that can be had for so many steps, by the tools so far
    chosen = np.full((len(candidates), cells), _NOTHING, dtype=np.int8)
    for at, (candidate, value) in enumerate(zip(candidates, values, strict=True)):
        better = worth.copy()
        for level, cost in sorted(candidate.costs.items()):
            steps = -(-cost // step)
            if steps < cells:
                with_it = worth[: cells - steps] + value * WORTH[level]
                gains = with_it > better[steps:]
                better[steps:][gains] = with_it[gains]
                chosen[at, steps:][gains] = level
        worth = better
    packed: dict[str, Detail] = {}
    left = cells - 1
    for at in reversed(range(len(candidates))):
        if (taken := int(chosen[at, left])) != _NOTHING:
            packed[candidates[at].tool_id] = Detail(taken)
            left -= -(-candidates[at].costs[Detail(taken)] // step)
    return dict(reversed(packed.items()))


def _values(scores: Sequence[float]) -> list[float]:
    """Scores as positive values.

    If some are not positive (logits of a cross-encoder), all are shifted.
    """
    if not all(isfinite(score) for score in scores):
        raise RequestError(f"scores to pack by must be finite, got {list(scores)}")
    if not scores or min(scores) > 0:
        return list(scores)
    lowest, span = min(scores), max(scores) - min(scores)
    return [score - lowest + (_LEAST * span or 1.0) for score in scores]
