"""Example queries from usage, taken only if held-out queries are answered no worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine
from ..enrichment import ExampleQueryMatcher, ExampleQueryRow
from ..enrichment.usage_queries import near_copy_numbers, query_without_values, usage_rows
from ..errors import RequestError
from ..gating import Gate
from ..indexing.builder import Builder
from ..retrieval import ranking_metrics
from ..retrieval.store.vectors import Vectors
from ..retrieval.usage import UsageEvent, checked_events, family_numbers

if TYPE_CHECKING:
    from ..catalog import Tool

#: Parts that events and tools are dealt into; each is held out once.
FOLD_COUNT = 5
#: Ranks that the metrics look at.
RANKS_MEASURED = 10
METRICS = ("hit@1", "recall@10")
#: Held-out queries, of each kind, and tools that they are for, below which nothing can be said.
MIN_HELD_OUT, MIN_TOOLS = 20, 5
_RESAMPLES = 2_000
#: Held-out queries of each kind in a fold that are searched.
_MAX_MEASURED = 500

#: Vectors of queries, L2-normalised, shape (n, dim).
Encode = Callable[[Sequence[str]], NDArray[np.float32]]


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

    Near copies of a query fall into the same part, and so do twins. Events that need tools of both
    sides are left out of the fold.

    Args:
        queries: the queries.
        relevant: rows of the tools of each, at least one.
        family: family of each row, see `usage.family_numbers`.

    Yields:
        `FOLD_COUNT` folds.
    """
    random = np.random.default_rng(0)
    event_part = random.integers(FOLD_COUNT, size=len(queries))[near_copy_numbers(queries)]
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of held-out queries before and after.

    Args:
        events: how many.
        tools: number of tools that they are for; twins count as one.
        before: mean of each of `METRICS`, 0 to 1.
        after: likewise.
        low: lower end of the 95 % interval of each metric's change.
        high: upper end.
        gain: lower and upper end of the interval of the change of the metrics' mean.
        metrics: their names.
    """

    events: int
    tools: int
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
        """Compare the same queries, with a paired bootstrap that redraws all queries of a tool.

        Args:
            before: `METRICS` of each query, shape (n, metrics).
            after: likewise.
            groups: number of the tool each query is for, shape (n,).
        """
        if not len(before):
            none = (0.0,) * len(METRICS)
            return cls(0, 0, none, none, none, none, (0.0, 0.0))
        change = after - before
        metrics_and_mean = np.column_stack([change, change.mean(axis=1)])
        low, high = ranking_metrics.bootstrap_interval(
            metrics_and_mean, groups=groups, resamples=_RESAMPLES
        )
        return cls(
            len(before),
            len(np.unique(groups)),
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
    """Why the example queries are not taken, or None if they are.

    Harm must be shown, and so must the gain: a fall within noise is no reason. On held-out queries
    of tools with events, the mean of the metrics rises beyond noise. Neither metric falls beyond
    noise there, nor on queries of tools without events.
    """
    kinds = (("with events", seen), ("without events", unseen))
    for name, kind in kinds:
        if kind.events < MIN_HELD_OUT or kind.tools < MIN_TOOLS:
            return (
                f"too few events: {kind.events} held-out queries of tools {name}, for "
                f"{kind.tools} of them; {MIN_HELD_OUT} for {MIN_TOOLS} are needed to tell; "
                "record more"
            )
    for name, kind in kinds:
        for metric, change, low, high in zip(
            METRICS, kind.change, kind.low, kind.high, strict=True
        ):
            if high < 0:
                return (
                    f"{metric} of tools {name} falls by {-change:.1%} on held-out queries "
                    f"(95 % interval {_points(low)} to {_points(high)})"
                )
    if seen.gain[0] <= 0:
        return (
            "no rise beyond noise on held-out queries of tools with events: the mean of "
            f"{' and '.join(METRICS)} changes by {_points(seen.gain[0])} to "
            f"{_points(seen.gain[1])} (95 % interval); record more events"
        )
    return None


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"


@dataclass(frozen=True, slots=True)
class LearningReport:
    """The result of learning from events.

    Both comparisons use held-out queries: each part of the events is held out once, and the others
    are learned from.

    Args:
        accepted: whether the rows may be used.
        reason: why not; None if they may.
        tier: the tier that was measured.
        events: number of events used.
        tools: number of tools with events.
        left_out: number of events that were not used, by reason. `unknown`: no tool of theirs is in
            the catalog; `quarantined`, `changed`: it is quarantined, or its definition was another
            one at the call; `private`: the query has a secret, or says nothing without its one-off
            values.
        seen: queries of tools that have other events.
        unseen: queries of tools that have none.
        rows: the example queries; none unless they are accepted.
    """

    accepted: bool
    reason: str | None
    tier: str
    events: int
    tools: int
    left_out: Mapping[str, int]
    seen: Comparison
    unseen: Comparison
    rows: tuple[ExampleQueryRow, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the number of rows in place of their texts."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "rows"}
        comparisons = {"seen": asdict(self.seen), "unseen": asdict(self.unseen)}
        return values | comparisons | {"rows": len(self.rows)}


def learn(engine: Engine, events: Iterable[UsageEvent]) -> LearningReport:
    """Write example queries from recorded queries and the tools that were right for them.

    They are accepted only if the default tier answers held-out events better. The engine does not
    change: `index.example_queries` names the file that the rows are written to.

    Args:
        engine: its catalog, quarantine and settings count. Of its example queries, those of usage
            are replaced.
        events: all recorded events, also those of earlier calls. Only tools that are in the
            catalog, not quarantined, and defined as at the call count.

    Raises:
        RequestError: `events` is not a list of events, no event can be used, no tier uses vectors,
            the encoder fails, or the catalog is in PostgreSQL.
        ConfigError: a file of example queries is gone.

    Example:
        >>> from shortlist import Engine
        >>> from shortlist.demo import load_catalog
        >>> from shortlist.retrieval.usage import UsageEvent
        >>> engine = Engine.from_tools(load_catalog())
        >>> report = learn(engine, [UsageEvent("tell the whole team", ("slack/post_message",))])
        >>> report.accepted, report.events
        (False, 1)
    """
    given = checked_events(events)
    if engine.config.index.is_shared:
        raise RequestError(
            "learning measures with an index in this process, and the catalog is in PostgreSQL; "
            "run it with the same tools and the setting index.backend = 'memory'"
        )
    problem = engine.wait().error
    if problem is not None:
        raise RequestError(f"not all tools are encoded, so nothing can be compared: {problem}")
    tools = {tool.id: tool for tool in engine.catalog}
    usable, left_out = _usable_events(given, tools, engine.quarantined)
    if not usable:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise RequestError(f"events: none of {len(given)} can be used: {reasons}")
    measured = _MeasuredEvents(engine, usable, tools)
    seen, unseen = measured.compare()
    reason = rejection_reason(seen, unseen)
    return LearningReport(
        accepted=reason is None,
        reason=reason,
        tier=engine.config.default_tier,
        events=len(usable),
        tools=len({tool_id for event in usable for tool_id in event.relevant}),
        left_out=left_out,
        seen=seen,
        unseen=unseen,
        rows=() if reason else tuple(measured.rows(range(len(usable)))),
    )


def _usable_events(
    events: Iterable[UsageEvent], tools: Mapping[str, Tool], quarantined: Mapping[str, str]
) -> tuple[list[UsageEvent], dict[str, int]]:
    """Events with the approved tools that they are about, and the number of others by reason."""
    usable = []
    left_out: Counter[str] = Counter()
    for event in events:
        problems = {
            tool_id: _problem_of_tool(event, tool_id, tools, quarantined)
            for tool_id in event.relevant
        }
        approved = tuple(tool_id for tool_id, problem in problems.items() if problem is None)
        if not approved:
            left_out[next(filter(None, problems.values()), "unknown")] += 1
        elif query_without_values(event.query) is None:
            left_out["private"] += 1
        else:
            usable.append(replace(event, relevant=approved))
    return usable, dict(left_out)


def _problem_of_tool(
    event: UsageEvent, tool_id: str, tools: Mapping[str, Tool], quarantined: Mapping[str, str]
) -> str | None:
    """Why a success of a tool does not count; None if it does."""
    if tool_id not in tools:
        return "unknown"
    if tool_id in quarantined:
        return "quarantined"
    fingerprint = tools[tool_id].fingerprint
    return None if event.fingerprints.get(tool_id, fingerprint) == fingerprint else "changed"


class _MeasuredEvents:
    """Searches for events in engines with and without the example queries of others.

    Args:
        engine: the engine whose tools and settings count.
        events: usable events.
        tools: tools of the catalog by id.

    Raises:
        RequestError: no tier uses vectors.
    """

    def __init__(
        self, engine: Engine, events: Sequence[UsageEvent], tools: Mapping[str, Tool]
    ) -> None:
        index = engine.view().admission.index
        if index.vectors is None or index.encoder is None:
            raise RequestError("learning compares vectors of queries, but no tier uses vectors")
        self._events = events
        self._tools = tools
        self._catalog = engine.catalog
        self._quarantined = engine.quarantined
        self._vectors = index.vectors
        self._row_by_id = {tool.id: row for row, tool in enumerate(index.tools)}
        self._families = family_numbers(index.tools)
        # What a caller may use is no question here.
        self._builder = Builder(engine.config.model_copy(update={"gate": Gate()}))
        self._example_queries = self._builder.example_queries
        written = [query_without_values(event.query) or "" for event in events]
        self._written_events = [
            replace(event, query=query) for event, query in zip(events, written, strict=True)
        ]
        texts = list(dict.fromkeys(written))
        self._vector_by_query = dict(
            zip(texts, index.encoder.encode(texts, query=True), strict=True)
        )

    def compare(self) -> tuple[Comparison, Comparison]:
        """Queries of tools that have other events, and of tools that have none."""
        relevant = [
            np.array([self._row_by_id[tool_id] for tool_id in event.relevant], np.int64)
            for event in self._events
        ]
        before_engine = self._engine_with(())
        before: dict[int, NDArray[np.float64]] = {}
        scores: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64], int]]] = {
            "seen": [],
            "unseen": [],
        }
        queries = [event.query for event in self._events]
        for fold in folds(queries, relevant, self._families):
            after_engine = self._engine_with(self.rows(fold.train.tolist()))
            for name, held_out in (("seen", fold.seen), ("unseen", fold.unseen)):
                for number in _spread(held_out, _MAX_MEASURED):
                    if number not in before:
                        before[number] = self._scores(before_engine, number)
                    after = self._scores(after_engine, number)
                    group = int(self._families[relevant[number][0]])
                    scores[name].append((before[number], after, group))
        return _comparison(scores["seen"]), _comparison(scores["unseen"])

    def rows(self, numbers: Iterable[int]) -> list[ExampleQueryRow]:
        """The example queries of some events."""
        return usage_rows(
            [self._written_events[number] for number in numbers], self._tools, self._encoded
        )

    def _encoded(self, queries: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vector_by_query[query] for query in queries])

    def _engine_with(self, rows: Iterable[ExampleQueryRow]) -> Engine:
        """An engine over the same tools, with these rows as the only ones of usage."""
        matcher: ExampleQueryMatcher = self._example_queries.with_usage(rows)
        means: dict[bytes, NDArray[np.float32]] = {}
        for queries in matcher.match_all(self._catalog).values():
            if all(query in self._vector_by_query for query in queries.texts_to_encode):
                means[queries.key] = self._encoded(queries.texts_to_encode).mean(axis=0)
        vectors = self._vectors
        if means:
            fingerprint = vectors.encoder_fingerprint
            added = Vectors(np.stack(list(means.values())), tuple(means), fingerprint)
            vectors = Vectors.joined([vectors, added])
        self._builder.example_queries = matcher
        build = self._builder.begin(self._catalog, vectors=vectors)
        return Engine(self._builder, build, self._quarantined)

    def _scores(self, engine: Engine, number: int) -> NDArray[np.float64]:
        """The `METRICS` of one event."""
        event = self._events[number]
        ids = engine.search(event.query, k=RANKS_MEASURED).ids
        judgement = ranking_metrics.judge([ids], [event.relevant], depth=RANKS_MEASURED)
        return np.concatenate(
            [
                ranking_metrics.hit_at(judgement, 1),
                ranking_metrics.recall_at(judgement, RANKS_MEASURED),
            ]
        )


def _spread(events: NDArray[np.int64], count: int) -> list[int]:
    """At most `count` of the events, evenly spread."""
    step = max(1, -(-len(events) // count))
    spread: list[int] = events[::step].tolist()
    return spread


def _comparison(
    scores: Sequence[tuple[NDArray[np.float64], NDArray[np.float64], int]],
) -> Comparison:
    if not scores:
        empty = np.empty((0, len(METRICS)))
        return Comparison.of(empty, empty, np.empty(0, np.int64))
    before, after, groups = zip(*scores, strict=True)
    return Comparison.of(np.stack(before), np.stack(after), np.array(groups, np.int64))
