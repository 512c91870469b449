"""The tiers of an engine: which one answers a query, and how long each takes."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

from ...errors import MissingExtraError, ModelError, RequestError
from ...sections import AUTO, BUILT_IN_TIERS, RERANK, RERANKER_MISSING
from ..query import Ranking
from .query_run import BudgetExceeded, Run, Strategy

# Weight of the newest request in a tier's running time.
_SMOOTHING = 0.2
# What the running time loses with each request that it turned away: one slow request must not shut
# the tier out for good, and what is truly too slow must not be tried often.
_FORGETTING = 0.05


class Tiers:
    """Strategies by name, with their measured times. A tier that cannot run falls back.

    Args:
        strategies: tier name to strategy.
        default: tier of a search that names none.
        reranks: whether a reranker is set, which the built-in tier `rerank` needs.
    """

    def __init__(
        self, strategies: Mapping[str, Strategy], default: str, *, reranks: bool = True
    ) -> None:
        self._strategies = strategies
        self._default = default
        self._reranks = reranks
        self._best = next(
            (name for name in reversed([*BUILT_IN_TIERS]) if name in strategies), default
        )
        self._ms: dict[str, float] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tiers."""
        return tuple(self._strategies)

    def requested(self, tier: str | Strategy | None) -> tuple[str, Strategy]:
        """Name and strategy of the requested tier.

        Raises:
            RequestError: there is no such tier, or the object is not a strategy.
        """
        if tier is None:
            tier = self._default
        if not isinstance(tier, str):
            if not (callable(getattr(tier, "rank", None)) and hasattr(tier, "fallback")):
                raise RequestError(
                    f"tier: {tier!r} is neither a name nor a Strategy, which has `rank(run)` "
                    "and `fallback`"
                )
            return type(tier).__name__, tier
        if tier == AUTO and tier not in self._strategies:
            return AUTO, self._strategies[self._best]
        if tier not in self._strategies:
            if tier == RERANK and not self._reranks:
                raise RequestError(f"tier {tier!r}: {RERANKER_MISSING}")
            raise RequestError(
                f"tier: no {tier!r}; use one of: {', '.join(self._strategies)}, {AUTO}"
            )
        return tier, self._strategies[tier]

    def rank(self, run: Run, requested: str, strategy: Strategy) -> tuple[Ranking, str, str | None]:
        """The ranking of the requested tier, or of its first fallback that can run.

        This alone decides which tier a request gets. A tier is left out where its encoder or its
        reranker fails, is missing or not loaded yet, or where what it took here lately is more than
        the time left. `auto` begins with the best tier.

        Returns:
            The ranking, the name of the tier that ran, and why if that was not asked for by name.

        Raises:
            ModelError, MissingExtraError, BudgetExceeded: no tier of the chain can run.

        If a reranker runs out of time, the results of the stages before it are used: as the tier
            that has exactly these stages, or as `TIER without reranker`.
        """
        name = requested
        if requested == AUTO and AUTO not in self._strategies:
            name = self._best
        if not run.query.text.strip():
            return Ranking.empty(), name, None
        reasons: list[str] = []
        if name != requested:
            reasons.append(f"{AUTO} -> {name}: {self._describe_time(name, run)}")
        while True:
            fallback = strategy.fallback
            try:
                ready = _ready(strategy, run)
                if fallback is not None and not ready:
                    self._check_budget(name, run)
                start, rerank_ms_before = perf_counter(), run.timings.get("rerank", 0.0)
                try:
                    ranking = strategy.rank(run)
                finally:
                    # Also where it failed: its time until then was spent. What was ready says
                    # nothing of what the tier takes otherwise.
                    if not ready:
                        rerank_ms = run.timings.get("rerank", 0.0) - rerank_ms_before
                        self._record_time(name, start, rerank_ms)
                return ranking, name, "; ".join(reasons) or None
            except (ModelError, MissingExtraError, BudgetExceeded) as error:
                reached = run.reached if isinstance(error, BudgetExceeded) else None
                fallback_strategy = self._strategies.get(fallback or "")
                if reached is not None and not _has_same_retrieval(strategy, fallback_strategy):
                    reasons.append(f"{name}: {error}")
                    return reached, f"{name} without reranker", "; ".join(reasons)
                if fallback is None or fallback not in self._strategies:
                    raise
                reasons.append(f"{name} -> {fallback}: {error}")
                name, strategy = fallback, self._strategies[fallback]

    def _describe_time(self, name: str, run: Run) -> str:
        """Measured time of a tier, and the remaining time of a request."""
        takes = f"{self._ms[name]:.1f} ms here" if name in self._ms else "not measured yet"
        if run.deadline is None:
            return f"{takes}, no budget"
        return f"{takes}, {max(0.0, run.deadline - perf_counter()) * 1e3:.1f} ms left"

    def _check_budget(self, name: str, run: Run) -> None:
        expected = self._ms.get(name, 0.0)
        if run.deadline is not None and perf_counter() + expected / 1e3 > run.deadline:
            self._ms[name] = expected * (1 - _FORGETTING)
            takes = f"takes {expected:.1f} ms here" if expected else "has no time left"
            raise BudgetExceeded(f"tier {name!r} {takes}")

    def _record_time(self, name: str, start: float, rerank_ms: float) -> None:
        # Without the reranker's share, which adapts to the time left by itself.
        spent_ms = (perf_counter() - start) * 1e3 - rerank_ms
        average_ms = self._ms.get(name, spent_ms)
        self._ms[name] = average_ms + _SMOOTHING * (spent_ms - average_ms)


def _ready(strategy: Strategy, run: Run) -> bool:
    """Whether a tier needs no further computation; unknown for strategies of other packages."""
    ready = getattr(strategy, "ready", None)
    return ready is not None and bool(ready(run))


def _has_same_retrieval(strategy: Strategy, fallback: Strategy | None) -> bool:
    """Whether a tier without its reranker has the same stages as its fallback."""
    retrievers = getattr(strategy, "retrievers", None)
    if retrievers is None or retrievers != getattr(fallback, "retrievers", None):
        return False
    return _fusion_settings(strategy) == _fusion_settings(fallback)


def _fusion_settings(strategy: Strategy | None) -> object:
    """What the fusion of a tier is made of; None for a tier without a fusion."""
    return getattr(getattr(strategy, "fusion", None), "__dict__", None)
