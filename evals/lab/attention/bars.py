"""The bars the two-phase arm is held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

COVERAGE = 97.0
CACHED_TOKENS = 1_400.0
POOL_TOKENS = 2_000.0
POINTS_LOST = 3.0


class Bar(NamedTuple):
    """One bar.

    Attributes:
        what: is measured.
        limit: as shown, with its direction.
        measured: the figure.
        passed: whether it is kept.
    """

    what: str
    limit: str
    measured: float
    passed: bool


def bars(found: Mapping[str, Any]) -> list[Bar]:
    """Every bar, kept or not.

    Args:
        found: what `measure` gave.
    """
    ours, rival = found["arms"]["two-phase"], found["arms"]["retrieval, our encoder"]
    coverage = 100 * ours["coverage"]
    tokens, rival_tokens = ours["turns"]["tokens"], rival["turns"]["tokens"]
    rival_coverage = 100 * rival["coverage"]
    return [
        Bar(
            "requests with every tool they take offered, %",
            f">= {COVERAGE:g}",
            coverage,
            coverage >= COVERAGE,
        ),
        Bar(
            "tool tokens per turn of a 30-turn session, at the price rule",
            f"<= {CACHED_TOKENS:,.0f}",
            ours["long_cached"],
            ours["long_cached"] <= CACHED_TOKENS,
        ),
        Bar(
            "tool tokens per turn, phase 1 in full: below simple retrieval",
            f"< {rival_tokens:,.0f}",
            tokens,
            tokens < rival_tokens,
        ),
        Bar(
            "at higher coverage than simple retrieval, %",
            f"> {rival_coverage:.1f}",
            coverage,
            coverage > rival_coverage,
        ),
        *_of_sizes(found["sizes"]["rows"]),
    ]


def _of_sizes(rows: list[Mapping[str, Any]]) -> list[Bar]:
    apart = {row["tools"]: row for row in rows if not row["same_work"]}
    most = max(apart)
    if most <= 120 or 120 not in apart:
        return []
    pool = float(apart[most]["pool_tokens"])
    lost = 100 * (apart[120]["two-phase"]["coverage"] - apart[most]["two-phase"]["coverage"])
    return [
        Bar(f"pool of {most:,} tools, tokens", f"<= {POOL_TOKENS:,.0f}", pool, pool <= POOL_TOKENS),
        Bar(
            f"points of coverage lost from 120 to {most:,} tools",
            f"<= {POINTS_LOST:g}",
            lost,
            lost <= POINTS_LOST,
        ),
    ]
