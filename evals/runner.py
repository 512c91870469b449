"""Runs labelled queries through a method, one by one, and measures the time of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from ..retrieval import ranking_metrics
from .dataset import LabelledQuery

if TYPE_CHECKING:
    from ..engine import Engine


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a method to one query.

    Args:
        ids: best first; empty when it abstained.
        tier_run: the tier that ran, if the method has tiers.
        reason: why another tier ran than the requested one, or None.
    """

    ids: tuple[str, ...]
    tier_run: str | None = None
    reason: str | None = None


Method = Callable[[LabelledQuery], Answer]
"""A method to measure: a tier of an engine, or any other function from a query to an answer."""


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """One query with its answer and time.

    Args:
        query: the labelled query.
        answer: the answer; empty if the query was refused.
        milliseconds: wall-clock time of the whole call.
        refused: the error message, if the query could not be searched.
    """

    query: LabelledQuery
    answer: Answer
    milliseconds: float
    refused: str | None = None

    @property
    def abstained(self) -> bool:
        """Whether the method abstained. A refused query does not count."""
        return not self.answer.ids and self.refused is None

    @property
    def failed(self) -> bool:
        """Whether a relevant tool is missing, or a query that no tool fits got an answer."""
        if not self.query.relevant:
            return not self.abstained
        return not set(self.query.relevant) <= set(self.answer.ids)


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one method over a set of queries.

    Args:
        values: metric name -> fraction from 0 to 1, or milliseconds; None where undefined.
        intervals: ranking metric -> ends of its 95 % bootstrap interval.
        queries: number of queries, those that no tool fits included.
    """

    values: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]]
    queries: int


def tier_method(engine: Engine, tier: str, *, k: int, limit_to_pool: bool = False) -> Method:
    """A tier of an engine as a method; `limit_to_pool` restricts each query to its own pool."""

    def answer(query: LabelledQuery) -> Answer:
        allowed = query.pool if limit_to_pool else None
        selection = engine.view(allowed=allowed).search(query.text, tier=tier, k=k)
        return Answer(
            tuple(hit.id for hit in selection.hits), selection.tier, selection.tier_reason
        )

    return answer


def session_method(
    engine: Engine,
    tier: str,
    *,
    k: int,
    limit_to_pool: bool = False,
) -> Method:
    """Sessions as a method to measure: with context, intents, rules and the decision.

    Each query gets a new session. A query with messages is the conversation so far. The time is
    that of the turn, search included.

    Args:
        engine: the engine; its rules apply, with an empty state.
        tier: name of the tier.
        k: maximum number of tools.
        limit_to_pool: whether each query is limited to its own pool.
    """

    def answer(query: LabelledQuery) -> Answer:
        allowed = query.pool if limit_to_pool else None
        session = engine.session(allowed=allowed, tier=tier, k=k, abstain=True)
        turn = session.turn(query.messages or query.text)
        first = turn.results.selections[0] if turn.results.selections else None
        return Answer(
            turn.ids,
            first.tier if first else None,
            first.tier_reason if first else None,
        )

    return answer


def measure(
    method: Method,
    queries: Sequence[LabelledQuery],
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[QueryOutcome, ...]:
    """Run every query through a method, after one call without measurement that loads models.

    Args:
        method: the method.
        queries: the queries, in this order.
        progress: called with 1 after each query.
    """
    if queries:
        _ask(method, queries[0])
    outcomes = []
    for query in queries:
        outcomes.append(_ask(method, query))
        if progress is not None:
            progress(1)
    return tuple(outcomes)


def _ask(method: Method, query: LabelledQuery) -> QueryOutcome:
    start = perf_counter()
    try:
        answer, refused = method(query), None
    except RequestError as error:
        answer, refused = Answer(()), str(error)
    return QueryOutcome(query, answer, (perf_counter() - start) * 1000.0, refused)


def summarise(outcomes: Sequence[QueryOutcome], *, seed: int = 0) -> Summary:
    """Ranking metrics over the queries that a tool fits; abstention and time over all queries.

    Args:
        outcomes: outcomes of one method.
        seed: seed of the bootstrap.
    """
    served = [outcome for outcome in outcomes if outcome.query.relevant]
    values: dict[str, float | None] = dict.fromkeys(ranking_metrics.QUALITY_METRICS)
    intervals: dict[str, tuple[float, float]] = {}
    if served:
        scores = query_scores(served)
        low, high = ranking_metrics.bootstrap_interval(scores, seed=seed)
        for column, name in enumerate(ranking_metrics.QUALITY_METRICS):
            values[name] = float(scores[:, column].mean())
            intervals[name] = (float(low[column]), float(high[column]))
    times = np.array([outcome.milliseconds for outcome in outcomes])
    for share in (50, 95):
        values[f"p{share}_ms"] = float(np.percentile(times, share)) if len(times) else None
    precision, recall = ranking_metrics.abstention(
        np.array([outcome.abstained for outcome in outcomes], dtype=np.bool_),
        np.array([not outcome.query.relevant for outcome in outcomes], dtype=np.bool_),
    )
    values["abstain_precision"], values["abstain_recall"] = precision, recall
    return Summary(values, intervals, len(outcomes))


def query_scores(served: Sequence[QueryOutcome]) -> NDArray[np.float64]:
    """Every ranking metric for every outcome, (queries, metrics); each must have relevant tools."""
    depth = max(1, *(len(outcome.answer.ids) for outcome in served), 1)
    judgement = ranking_metrics.judge(
        [outcome.answer.ids for outcome in served],
        [outcome.query.relevant for outcome in served],
        depth=depth,
    )
    return ranking_metrics.quality(judgement)


def group_by(outcomes: Sequence[QueryOutcome], field: str) -> dict[str, list[QueryOutcome]]:
    """Outcomes by a field of their rows, sorted by its values; `-` where it is absent."""
    groups: dict[str, list[QueryOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.query.fields.get(field, "-"), []).append(outcome)
    return dict(sorted(groups.items()))
