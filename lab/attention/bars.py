"""Goals of the project for library defaults, with the figures measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

COVERAGE = 97.0
CACHED_TOKENS = 1_400.0
POOL_TOKENS = 2_000.0
POINTS_LOST = 3.0


class CoverageGoal(NamedTuple):
    """One goal.

    Attributes:
        what: the measured quantity with its unit.
        limit: the goal, with its comparison: `>= 97`.
        measured: the figure.
        passed: whether the goal is met.
    """

    what: str
    limit: str
    measured: float
    passed: bool


def bars(found: Mapping[str, Any]) -> list[CoverageGoal]:
    """All goals.

    Args:
        found: figures that `measure` returned.
    """
    ours, rival = found["arms"]["library defaults"], found["arms"]["retrieval, tier embed"]
    coverage = 100 * ours["coverage"]
    tokens, rival_tokens = ours["turns"]["tokens"], rival["turns"]["tokens"]
    rival_coverage = 100 * rival["coverage"]
    return [
        CoverageGoal(
            "user messages with all needed tools offered, %",
            f">= {COVERAGE:g}",
            coverage,
            coverage >= COVERAGE,
        ),
        CoverageGoal(
            "cached tokens per turn, 30-turn sessions",
            f"<= {CACHED_TOKENS:,.0f}",
            ours["long_cached"],
            ours["long_cached"] <= CACHED_TOKENS,
        ),
        CoverageGoal(
            "tokens per turn, below simple retrieval (tier embed)",
            f"< {rival_tokens:,.0f}",
            tokens,
            tokens < rival_tokens,
        ),
        CoverageGoal(
            "offered %, above simple retrieval (tier embed)",
            f"> {rival_coverage:.1f}",
            coverage,
            coverage > rival_coverage,
        ),
        *_of_sizes(found["sizes"]["rows"]),
    ]


def _of_sizes(rows: list[Mapping[str, Any]]) -> list[CoverageGoal]:
    apart = {row["tools"]: row for row in rows if not row["same_work"]}
    most = max(apart)
    if most <= 120 or 120 not in apart:
        return []
    pool = float(apart[most]["pool_tokens"])
    before, after = (apart[size]["library defaults"]["coverage"] for size in (120, most))
    lost = 100 * (before - after)
    return [
        CoverageGoal(
            f"tokens of the prefix with {most:,} tools",
            f"<= {POOL_TOKENS:,.0f}",
            pool,
            pool <= POOL_TOKENS,
        ),
        CoverageGoal(
            f"offered %: points lost from 120 to {most:,} tools",
            f"<= {POINTS_LOST:g}",
            lost,
            lost <= POINTS_LOST,
        ),
    ]
