"""Milliseconds per tier and stage, alone and with several callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .timing import Latency, at_once, in_turn, warm_up

if TYPE_CHECKING:
    from ...engine import Engine
    from ...retrieval import Selection

OUTSIDE = "outside stages"
"""Time of a request that no stage recorded."""


@dataclass(frozen=True, slots=True)
class TierLatency:
    """One tier under one load.

    Args:
        tools: in the catalog.
        threads: CPU threads the encoder may use for one request.
        callers: requests under way at once.
        tier: as asked.
        ran: tiers that really ran, with how often.
        total: times of whole requests.
        stages: stage name to its share; empty with several callers, who disturb each other.
        per_second: requests answered by all callers together; None when tiers took turns.
    """

    tools: int
    threads: int
    callers: int
    tier: str
    ran: Mapping[str, int]
    total: Latency
    stages: Mapping[str, Latency]
    per_second: float | None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tools": self.tools,
            "threads": self.threads,
            "callers": self.callers,
            "tier": self.tier,
            "ran": dict(self.ran),
            **self.total.to_dict(),
            "per_second": None if self.per_second is None else round(self.per_second, 1),
            "stages": {stage: found.to_dict() for stage, found in self.stages.items()},
        }


class _Searches:
    """Searches in a tier, and the tiers and times in their answers. Thread-safe."""

    def __init__(self, engine: Engine, tier: str, queries: Sequence[str]) -> None:
        self._engine, self._tier, self._queries = engine, tier, queries
        self._answers: list[Selection] = []

    def __call__(self, position: int) -> None:
        self._answers.append(self._engine.search(self._queries[position], tier=self._tier))

    def ran(self) -> dict[str, int]:
        """Tiers that really ran, with how often."""
        return dict(Counter(answer.tier for answer in self._answers))

    def stages(self) -> dict[str, Latency]:
        """Time of each stage, and the rest."""
        times: dict[str, list[float]] = {}
        for answer in self._answers:
            outside = answer.total_ms - sum(answer.timings.values())
            for stage, ms in {**answer.timings, OUTSIDE: outside}.items():
                times.setdefault(stage, []).append(ms)
        return {stage: Latency.of(found) for stage, found in times.items()}


def tier_latencies(
    engine: Engine, queries: Sequence[str], *, threads: int, callers: int
) -> list[TierLatency]:
    """Every tier of an engine; a single caller asks the tiers in turn, several one by one."""
    tools, count = len(engine.catalog), len(queries)
    for tier in engine.tiers:
        warm_up(_Searches(engine, tier, queries), count)
    searches = {tier: _Searches(engine, tier, queries) for tier in engine.tiers}
    found = []
    if callers == 1:
        times = in_turn(searches, count)
        for tier, asked in searches.items():
            total, stages = Latency.of(times[tier]), asked.stages()
            found.append(TierLatency(tools, threads, 1, tier, asked.ran(), total, stages, None))
        return found
    for tier, asked in searches.items():
        each, rate = at_once(asked, count, callers)
        total = Latency.of(each)
        found.append(TierLatency(tools, threads, callers, tier, asked.ran(), total, {}, rate))
    return found
