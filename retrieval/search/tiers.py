"""The tiers of an engine: which one answers a query, and how long each takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from time import perf_counter

from ...errors import MissingExtraError, ModelError, RequestError
from ...settings import AUTO_TIER, BUILT_IN_TIERS, RERANK_TIER, RERANKER_MISSING
from ..query import Ranking
from .query_run import BudgetExceeded, QueryRun, StageBusy, Strategy
from .time_estimate import TimeEstimate


class Tiers:
    """Strategies by name, with their measured times. A tier that cannot run falls back.

    Args:
        strategies: tier name to strategy.
        default: tier of a search that names none.
        has_reranker: whether a reranker is set, which the built-in tier `rerank` needs.
    """

    def __init__(
        self, strategies: Mapping[str, Strategy], default: str, *, has_reranker: bool = True
    ) -> None:
        self._strategies = strategies
        self._default = default
        self._reranks = has_reranker
        built_in = [name for name in reversed([*BUILT_IN_TIERS]) if name in strategies]
        self._auto_tiers = built_in or [default]
        self._times: defaultdict[str, TimeEstimate] = defaultdict(TimeEstimate)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tiers."""
        return tuple(self._strategies)

    def find_tier(self, tier: str | Strategy | None) -> tuple[str, Strategy]:
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
        if tier == AUTO_TIER and tier not in self._strategies:
            return AUTO_TIER, self._strategies[self._auto_tiers[0]]
        if tier not in self._strategies:
            if tier == RERANK_TIER and not self._reranks:
                raise RequestError(f"tier {tier!r}: {RERANKER_MISSING}")
            raise RequestError(
                f"tier: no {tier!r}; use one of: {', '.join(self._strategies)}, {AUTO_TIER}"
            )
        return tier, self._strategies[tier]

    def rank(
        self, run: QueryRun, requested: str, strategy: Strategy
    ) -> tuple[Ranking, str, str | None]:
        """The ranking of the requested tier, or of its first fallback that can run.

        A tier is skipped if its encoder or its reranker fails, is missing or is not loaded yet, or
        if its measured time is more than the time left. If a reranker runs out of time, the results
        of the stages before it are used. They are reported under the fallback, if that has exactly
        these stages, else as `TIER without reranker`. If it scored some of the candidates, the
        answer is reported as `TIER in part`: no threshold or calibration is for its scores.

        `auto` tries the built-in tiers, the best first, and reranks all candidates or none.

        Returns:
            The ranking, the name of the tier that ran, and why it is not the requested one; None if
            it is.

        Raises:
            ModelError, MissingExtraError, BudgetExceeded: no tier of the chain can run.

        """
        name = requested
        cheaper: list[str] = []
        reasons: list[str] = []
        if requested == AUTO_TIER and AUTO_TIER not in self._strategies:
            name, *cheaper = self._auto_tiers
            run.reranks_whole = True
            reasons.append(f"{AUTO_TIER} -> {name}: {self._describe_time(name, run)}")
        while True:
            fallback = cheaper.pop(0) if cheaper else strategy.fallback
            run.partly_reranked = None
            try:
                ready = _ready(strategy, run)
                if fallback is not None and not ready:
                    self._check_budget(name, run)
                if ready or run.query.vector is not None:
                    # Results of earlier work are reused, so the time is not that of the tier.
                    ranking = strategy.rank(run)
                else:
                    ranking = self._rank_measured(run, name, strategy)
            except (ModelError, MissingExtraError, BudgetExceeded) as error:
                unreranked = run.before_rerank if isinstance(error, BudgetExceeded) else None
                fallback_strategy = self._strategies.get(fallback or "")
                if unreranked is not None and not _has_same_retrieval(strategy, fallback_strategy):
                    reasons.append(f"{name}: {error}")
                    return unreranked, f"{name} without reranker", "; ".join(reasons)
                if fallback is None or fallback not in self._strategies:
                    raise
                reasons.append(f"{name} -> {fallback}: {error}")
                name, strategy = fallback, self._strategies[fallback]
            else:
                if run.partly_reranked is not None:
                    scored, candidates = run.partly_reranked
                    reasons.append(
                        f"{name}: the time left was for {scored} of {candidates} candidates of the "
                        "reranker, so the scores are those before it"
                    )
                    name = f"{name} in part"
                return ranking, name, "; ".join(reasons) or None

    def _describe_time(self, name: str, run: QueryRun) -> str:
        """Measured time of a tier, and the remaining time of a request."""
        ms = self._times[name].ms
        takes = "not measured yet" if ms is None else f"{ms:.1f} ms here"
        if run.deadline is None:
            return f"{takes}, no budget"
        return f"{takes}, {max(0.0, run.deadline - perf_counter()) * 1e3:.1f} ms left"

    def _check_budget(self, name: str, run: QueryRun) -> None:
        if run.deadline is None:
            return
        ms_left = (run.deadline - perf_counter()) * 1e3
        estimate = self._times[name]
        if ms_left <= 0 or not estimate.allows(ms_left):
            takes = f"takes {estimate.ms:.1f} ms here" if estimate.ms else "has no time left"
            raise BudgetExceeded(f"tier {name!r} {takes}")

    def _rank_measured(self, run: QueryRun, name: str, strategy: Strategy) -> Ranking:
        """The ranking of a tier, whose time is recorded if its stages ran.

        Only the time of the retrievers is recorded. A reranker adapts to the time left by itself,
        and waiting for other requests is not work of the tier.
        """
        start, others_ms, earlier = perf_counter(), _other_ms(run), run.before_rerank
        finished = False
        try:
            ranking = strategy.rank(run)
            finished = True
        except BudgetExceeded as error:
            # The retrievers had finished if the run came to its reranker.
            finished = run.before_rerank is not earlier
            if not finished and not isinstance(error, StageBusy):
                self._times[name].record_unfinished((perf_counter() - start) * 1e3)
            raise
        finally:
            if finished:
                spent_ms = (perf_counter() - start) * 1e3
                self._times[name].record(spent_ms - (_other_ms(run) - others_ms))
        return ranking


def _other_ms(run: QueryRun) -> float:
    """Milliseconds of a run so far that are not the retrievers' own: reranking and waiting."""
    return run.timings.get("rerank", 0.0) + run.query.queued_ms


def _ready(strategy: Strategy, run: QueryRun) -> bool:
    """Whether a tier needs no further computation; False if its class has no method `ready`."""
    ready = getattr(strategy, "ready", None)
    return ready is not None and bool(ready(run))


def _has_same_retrieval(strategy: Strategy, fallback: Strategy | None) -> bool:
    """Whether a tier without its reranker has the same stages as its fallback."""
    retrievers = getattr(strategy, "retrievers", None)
    if retrievers is None or retrievers != getattr(fallback, "retrievers", None):
        return False
    return _fusion_settings(strategy) == _fusion_settings(fallback)


def _fusion_settings(strategy: Strategy | None) -> object:
    """The attributes of the fusion of a tier; None for a tier without a fusion."""
    return getattr(getattr(strategy, "fusion", None), "__dict__", None)
