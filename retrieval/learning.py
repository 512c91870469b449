"""Learning from usage: one change of all tool vectors, taken only if held-out queries gain."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from .backends.exact import ExactIndex
from .catalog_index import Index
from .ranking_metrics import Judgement, bootstrap_interval, hit_at, recall_at
from .usage import LearnedChange, UsageEvent, family_numbers, numbers_of_texts

#: Parts that events and tools are dealt into; each is held out once.
FOLD_COUNT = 5
#: Ranks that the metrics look at.
RANKS_MEASURED = 10
METRICS = ("hit@1", "recall@10")
#: Held-out requests, of each kind, below which nothing can be said.
MIN_HELD_OUT = 20
_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Fold:
    """Events by what may be learned from and what is held out; positions in a list of events.

    Args:
        train: events to learn from.
        seen: held-out events of tools that have other events in `train`.
        unseen: held-out events of tools that have none there.
    """

    train: NDArray[np.int64]
    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]


def folds(
    queries: Sequence[str], relevant: Sequence[NDArray[np.int64]], family: NDArray[np.int64]
) -> Iterator[Fold]:
    """Every event held out once with its tools, and once, where they have others, by itself.

    Equal requests fall into the same part, and so do twins. Events that need tools of both sides
    are left out of the fold.

    Args:
        queries: the requests.
        relevant: rows of the tools of each, at least one.
        family: family of each row, see `usage.family_numbers`.

    Yields:
        `FOLD_COUNT` folds.
    """
    random = np.random.default_rng(0)
    event_part = random.integers(FOLD_COUNT, size=len(queries))[numbers_of_texts(queries)]
    tool_part = random.integers(FOLD_COUNT, size=len(family))[family]
    parts_of_events = [np.unique(tool_part[rows]) for rows in relevant]
    for part in range(FOLD_COUNT):
        outside = np.array([part not in parts for parts in parts_of_events], np.bool_)
        inside = np.array(
            [len(parts) == 1 and parts[0] == part for parts in parts_of_events], np.bool_
        )
        train = np.flatnonzero(outside & (event_part != part))
        has_training_events = np.zeros(len(family), np.bool_)
        for event in train.tolist():
            has_training_events[relevant[event]] = True
        held_out = np.flatnonzero(outside & (event_part == part))
        seen = [event for event in held_out.tolist() if has_training_events[relevant[event]].all()]
        yield Fold(train, np.array(seen, np.int64), np.flatnonzero(inside))


def scores(judgement: Judgement) -> NDArray[np.float64]:
    """The `METRICS` of each request, shape (n, 2)."""
    return np.column_stack([hit_at(judgement, 1), recall_at(judgement, RANKS_MEASURED)])


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of held-out requests before and after.

    Args:
        events: how many.
        before: mean of each of `METRICS`, 0 to 1.
        after: likewise.
        low: lower end of the 95 % interval of each metric's change.
        high: upper end.
        gain: lower and upper end of the interval of the change of the metrics' mean.
        metrics: their names.
    """

    events: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    gain: tuple[float, float]
    metrics: tuple[str, ...] = METRICS

    @classmethod
    def of(
        cls,
        before: NDArray[np.float64],
        after: NDArray[np.float64],
        groups: NDArray[np.int64],
    ) -> Comparison:
        """Compare the same requests, with a paired bootstrap that redraws all requests of a tool.

        Args:
            before: shape (n, metrics), see `scores`.
            after: likewise.
            groups: number of the tool each request is for, shape (n,).
        """
        if not len(before):
            none = (0.0,) * len(METRICS)
            return cls(0, none, none, none, none, (0.0, 0.0))
        change = after - before
        metrics_and_mean = np.column_stack([change, change.mean(axis=1)])
        low, high = bootstrap_interval(metrics_and_mean, groups=groups, resamples=_RESAMPLES)
        return cls(
            len(before),
            tuple(before.mean(axis=0).tolist()),
            tuple(after.mean(axis=0).tolist()),
            tuple(low[:-1].tolist()),
            tuple(high[:-1].tolist()),
            (float(low[-1]), float(high[-1])),
        )

    @property
    def change(self) -> tuple[float, ...]:
        """After less before, of each metric."""
        return tuple(after - before for before, after in zip(self.before, self.after, strict=True))


def rejection_reason(seen: Comparison, unseen: Comparison) -> str | None:
    """Why what was learned is not taken, or None if it is.

    Harm must be shown, and so must the gain: a fall within noise is no reason. On held-out requests
    of tools with events, the mean of the metrics rises beyond noise. Neither metric falls beyond
    noise there, nor on requests of tools without events.
    """
    kinds = (("with events", seen), ("without events", unseen))
    for name, kind in kinds:
        if kind.events < MIN_HELD_OUT:
            return (
                f"too few events: {kind.events} held-out requests of tools {name}, {MIN_HELD_OUT} "
                "are needed to tell; record more"
            )
    for name, kind in kinds:
        for metric, change, low, high in zip(
            METRICS, kind.change, kind.low, kind.high, strict=True
        ):
            if high < 0:
                return (
                    f"{metric} of tools {name} falls by {-change:.1%} on held-out requests "
                    f"(95 % interval {_points(low)} to {_points(high)})"
                )
    if seen.gain[0] <= 0:
        return (
            "no rise beyond noise on held-out requests of tools with events: the mean of "
            f"{' and '.join(METRICS)} changes by {_points(seen.gain[0])} to "
            f"{_points(seen.gain[1])} (95 % interval); record more events"
        )
    return None


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


#: In place of a rival, where a request has fewer.
_NO_TOOL = -1
#: Tools that a tool has to beat in training: a few dozen hard ones say most of what all would.
_RIVAL_COUNT = 24
#: Nearest tools that rivals are chosen from; the others serve the request or are twins.
_NEAREST_COUNT = 64
_TEMPERATURE = 0.05
#: Few events make few steps, so that they change little. More of them, or more steps, help tools
#: with events and harm the others (ADR 7).
_EPOCHS, _MAX_STEPS, _MIN_BATCH = 10, 64, 64
# Adam (Kingma and Ba 2015) with a shorter memory of squares, as the steps are few.
_LEARNING_RATE, _MOMENTUM, _SQUARES_DECAY = 1e-3, 0.9, 0.99
#: Held-out requests of each kind in a fold that are searched for the report.
_MAX_MEASURED = 500

#: Rows that a tier places first, for each request: of the index with this change, or without any.
RankQueries = Callable[
    [LearnedChange | None, Sequence[str], NDArray[np.float32]], Sequence[NDArray[np.int64]]
]

#: Metrics of held-out requests of a fold before and after, see `scores`, and the family of each.
_Measurement = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class LearningReport:
    """The result of learning from events.

    Both comparisons use held-out requests: each part of the events is held out once, and the others
    are learned from.

    Args:
        accepted: whether the learned adjustments are used.
        reason: why not; None if it is.
        tier: the tier that was measured.
        events: number of events used.
        skipped: number of events without a tool of the catalog.
        tools: number of tools with events.
        seen: requests of tools that have other events.
        unseen: requests of tools that have none.
    """

    accepted: bool
    reason: str | None
    tier: str
    events: int
    skipped: int
    tools: int
    seen: Comparison
    unseen: Comparison

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


def learn(
    index: Index, events: Sequence[UsageEvent], *, tier: str, rank_queries: RankQueries
) -> tuple[LearningReport, LearnedChange | None]:
    """Learn from events, and accept the result if held-out events are answered better.

    Args:
        index: index with vectors. Earlier learned adjustments are ignored.
        events: requests and the tools that served them. Duplicates count.
        tier: name of the tier that `rank_queries` searches.
        rank_queries: function that searches the tier.

    Returns:
        The report, and the learned adjustments if they are accepted.

    Raises:
        RequestError: the index has no vectors, or no event has a tool of the catalog.
    """
    base = index.tool_vectors
    if base is None or index.vectors is None or index.encoder is None:
        raise RequestError("learning changes vectors, but no tier uses vectors")
    usable_events = [
        (event.query, np.array(rows, np.int64))
        for event in events
        if (rows := [index.rows[tool] for tool in event.relevant if tool in index.rows])
    ]
    if not usable_events:
        raise RequestError(f"events: none of {len(events)} names a tool of the catalog")
    texts, relevant = [text for text, _ in usable_events], [rows for _, rows in usable_events]
    queries, model = index.encoder.encode(texts, query=True), index.vectors.encoder_fingerprint
    family = family_numbers(index.tools)
    pairs, choices = _pairs_with_rivals(queries, relevant, base, family)

    def learn_from(part: NDArray[np.int64]) -> LearnedChange:
        in_part = np.isin(pairs, part)
        change = _train_change(queries[pairs[in_part]], choices[in_part], base)
        return LearnedChange(change, model, len(part))

    def measure(learned: LearnedChange | None, part: NDArray[np.int64]) -> NDArray[np.float64]:
        rankings = rank_queries(learned, [texts[event] for event in part.tolist()], queries[part])
        served = [relevant[event] for event in part.tolist()]
        hits = np.zeros((len(part), RANKS_MEASURED), np.bool_)
        for place, rows in enumerate(rankings):
            hits[place, : len(rows)] = np.isin(rows, served[place])[:RANKS_MEASURED]
        return scores(Judgement(hits, np.array([len(rows) for rows in served])))

    seen_measurements: list[_Measurement] = []
    unseen_measurements: list[_Measurement] = []
    for fold in folds(texts, relevant, family):
        learned = learn_from(fold.train) if len(fold.train) else None
        for measurements, held_out in (
            (seen_measurements, fold.seen),
            (unseen_measurements, fold.unseen),
        ):
            part = _spread(held_out, _MAX_MEASURED)
            groups = family[[relevant[event][0] for event in part.tolist()]]
            measurements.append((measure(None, part), measure(learned, part), groups))
    seen, unseen = _compare(seen_measurements), _compare(unseen_measurements)
    reason = rejection_reason(seen, unseen)
    report = LearningReport(
        accepted=reason is None,
        reason=reason,
        tier=tier,
        events=len(texts),
        skipped=len(events) - len(texts),
        tools=len(np.unique(np.concatenate(relevant))),
        seen=seen,
        unseen=unseen,
    )
    return report, None if reason else learn_from(np.arange(len(texts)))


def _spread(events: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` of the events, evenly spread."""
    step = max(1, -(-len(events) // count))
    return events[::step]


def _compare(measurements: Sequence[_Measurement]) -> Comparison:
    before, after, groups = zip(*measurements, strict=True)
    return Comparison.of(np.concatenate(before), np.concatenate(after), np.concatenate(groups))


def _pairs_with_rivals(
    queries: NDArray[np.float32],
    relevant: Sequence[NDArray[np.int64]],
    base: NDArray[np.float32],
    family: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each request with each tool that served it, and the tools that come nearest instead.

    Args:
        queries: the requests, shape (n, dim), L2-normalised.
        relevant: rows of the tools that served each.
        base: the encoder's vectors of the tools, shape (tools, dim).
        family: family of each tool, see `usage.family_numbers`.

    Returns:
        Position of each pair's request, shape (p,); rows of its tool and then of the rivals, twins
        left out, `_NO_TOOL` where there are fewer, shape (p, 1 + rivals).
    """
    dense = ExactIndex(base)
    pairs = np.repeat(np.arange(len(queries)), [len(rows) for rows in relevant])
    choices = np.full((len(pairs), 1 + _RIVAL_COUNT), _NO_TOOL, np.int64)
    choices[:, 0] = np.concatenate(relevant)
    for event, (query, served) in enumerate(zip(queries, relevant, strict=True)):
        near = dense.search(query, _NEAREST_COUNT).rows
        rivals = near[~np.isin(family[near], family[served])][:_RIVAL_COUNT]
        choices[pairs == event, 1 : 1 + len(rivals)] = rivals
    return pairs, choices


def _train_change(
    queries: NDArray[np.float32], choices: NDArray[np.int64], base: NDArray[np.float32]
) -> NDArray[np.float32]:
    """A linear change of tool vectors under which requests choose the tools that served them.

    Softmax of request . (v + change v) / temperature over the tool and its rivals, a few passes
    from change = 0.

    Args:
        queries: request of each pair, shape (p, dim).
        choices: choices of each pair, see `_pairs_with_rivals`.
        base: the encoder's vectors of the tools, shape (tools, dim).
    """
    change = np.zeros((base.shape[1], base.shape[1]), np.float32)
    mean, square = np.zeros_like(change), np.zeros_like(change)
    random, batch_size = np.random.default_rng(0), max(_MIN_BATCH, len(choices) // 20)
    batches = [
        positions[start : start + batch_size]
        for positions in (random.permutation(len(choices)) for _ in range(_EPOCHS))
        for start in range(0, len(positions), batch_size)
    ]
    for step, batch in enumerate(batches[:_MAX_STEPS], start=1):
        is_tool = choices[batch] != _NO_TOOL
        batch_queries, tools = queries[batch], base[np.where(is_tool, choices[batch], 0)]
        scores = np.matmul(tools, (batch_queries + batch_queries @ change)[:, :, None])[:, :, 0]
        scores = np.where(is_tool, scores, -np.inf) / _TEMPERATURE
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        odds[:, 0] -= 1
        pushed = np.matmul(odds[:, None, :].astype(np.float32), tools)[:, 0]
        slope = batch_queries.T @ pushed / (len(batch) * _TEMPERATURE)
        mean += (1 - _MOMENTUM) * (slope - mean)
        square += (1 - _SQUARES_DECAY) * (slope * slope - square)
        scale = np.sqrt(square / (1 - _SQUARES_DECAY**step)) + 1e-6
        change -= (_LEARNING_RATE / (1 - _MOMENTUM**step)) * mean / scale
    return change
