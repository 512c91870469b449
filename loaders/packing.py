"""Packing: which tools get how much detail within a token budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ..errors import RequestError
from .detail import Detail

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

    Greedy, in four steps. The first tool gets its highest level that fits. The others get a
    callable level. Those for which it does not fit get less. The remaining tokens raise tools to
    their highest level. In each step, tools with the highest score per token come first, and a tool
    is skipped if its level does not fit.

    Args:
        candidates: in rank order; ids must differ.
        budget: maximum number of tokens.

    Returns:
        Id to level of the tools that fit, in the order of the candidates.

    Raises:
        RequestError: a score is not finite.
    """
    values = _values([candidate.score for candidate in candidates])
    room = max(budget, 0)
    packed: dict[str, Detail] = {}
    for first in candidates[:1]:
        fitting = [level for level, cost in first.costs.items() if cost <= room]
        packed = {first.tool_id: max(fitting)} if fitting else {}
    others = candidates[1:]
    able = {other.tool_id: callable_level(other.costs) for other in others}
    packed = _raised(packed, able, candidates, values, room)
    for level in (Detail.SUMMARY, Detail.NAME):
        less = {
            other.tool_id: level
            for other in others
            if other.tool_id not in packed and level in other.costs
        }
        packed = _raised(packed, less, candidates, values, room)
    highest = {
        candidate.tool_id: max(candidate.costs)
        for candidate in candidates
        if candidate.tool_id in packed and packed[candidate.tool_id] < max(candidate.costs)
    }
    packed = _raised(packed, highest, candidates, values, room)
    order = [candidate.tool_id for candidate in candidates]
    return {tool_id: packed[tool_id] for tool_id in order if tool_id in packed}


def callable_level(costs: Mapping[Detail, int]) -> Detail:
    """The cheapest level at which a tool can be called; without one, its highest level.

    Args:
        costs: detail to tokens.
    """
    able = [level for level in costs if level >= Detail.SIGNATURE]
    return min(able, key=lambda level: (costs[level], -level)) if able else max(costs)


def _raised(
    packed: Mapping[str, Detail],
    levels: Mapping[str, Detail],
    candidates: Sequence[Candidate],
    values: Sequence[float],
    budget: int,
) -> dict[str, Detail]:
    """The levels after raising some tools, highest value per further token first.

    Args:
        packed: id to present level.
        levels: id to the level that the tool gets if it fits.
        candidates: all tools.
        values: positive score of each tool.
        budget: maximum tokens of all tools together.
    """
    spent, steps = 0, []
    for candidate, value in zip(candidates, values, strict=True):
        name = candidate.tool_id
        present = candidate.costs[packed[name]] if name in packed else 0
        spent += present
        if name in levels:
            further = candidate.costs[levels[name]] - present
            steps.append((value / max(further, 1), further, name))
    raised = dict(packed)
    for _, further, name in sorted(steps, key=lambda step: -step[0]):
        if spent + further <= budget:
            raised[name] = levels[name]
            spent += further
    return raised


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
