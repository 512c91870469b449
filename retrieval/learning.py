"""Learning from usage: how strongly to apply the events, and whether they improve the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from .fusion import LinearFusion
from .held_out import DEPTH, Comparison, refusal, scores
from .index import Index
from .learned import Learned, Strengths, mapped, moved
from .refine import HardNegatives, Lessons, Usage
from .run import Strategy
from .usage import Event, Fold, families, folds

#: What is tried, one list after the other, each from the best of the one before.
_SETTINGS: tuple[list[dict[str, float]], ...] = (
    [{"shared": 0.5}, {"shared": 1.0}],
    [{"own": own, "patience": patience} for own in (0.15, 0.3, 0.6) for patience in (1.0, 3.0)],
    [{"lexical": 0.5}, {"lexical": 2.0}],
)
#: Folds, and held-out requests of each kind, that strengths are chosen on at most.
_TRIALS, _ENOUGH = 3, 400
#: Held-out requests of each kind in a fold that are searched for the report.
_MEASURED = 500
#: What a rise on unseen tools counts of one on seen tools when strengths are chosen: in a large
#: catalog most tools have no events.
_UNSEEN = 2.0

#: Rows that a tier places first, for each request: of the index with this learned, or without any.
Ranked = Callable[[Learned | None, Sequence[str], NDArray[np.float32]], Sequence[NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class LearningReport:
    """The result of learning from events.

    Both comparisons use queries that were not used for learning: each part of the events is held
        out once, and everything is learned from the others.

    Args:
        accepted: whether the result is applied.
        reason: why not; None if it is.
        tier: the tier that was measured.
        events: number of events used.
        skipped: number of events that name no tool of the catalog.
        tools: number of tools with events.
        seen: comparison on queries for tools with other events.
        unseen: comparison on queries for tools without other events.
        strengths: strengths chosen on all events.
        seconds: duration in seconds.
    """

    accepted: bool
    reason: str | None
    tier: str
    events: int
    skipped: int
    tools: int
    seen: Comparison
    unseen: Comparison
    strengths: Strengths
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            **asdict(self),
            "seen": self.seen.to_dict(),
            "unseen": self.unseen.to_dict(),
        }


def learn(
    index: Index, events: Sequence[Event], *, tier: str, strategy: Strategy, ranked: Ranked
) -> tuple[LearningReport, Learned | None]:
    """Learn from events, and measure on held-out ones whether that is any good.

    Args:
        index: with vectors; what it has learned before is left aside.
        events: requests and the tools that served them; equal ones count as often as they come.
        tier: name of the tier that `ranked` searches.
        strategy: the tier.
        ranked: searches the tier.

    Returns:
        The report, and what was learned if it is accepted.

    Raises:
        RequestError: the index holds no vectors, or no event names a tool of the catalog.
    """
    start = perf_counter()
    if index.vectors is None or index.encoder is None:
        raise RequestError("usage changes vectors, and no tier uses any")
    known = [
        (event.query, np.array(rows, np.int64))
        for event in events
        if (rows := [index.rows[tool] for tool in event.relevant if tool in index.rows])
    ]
    if not known:
        raise RequestError(f"events: none of {len(events)} names a tool of the catalog")
    texts, relevant = [text for text, _ in known], [rows for _, rows in known]
    family = families(index.tools)
    weight = _lexical_weight(strategy)
    lexical = (index.lexical, weight) if index.lexical is not None and weight else None
    encoded = index.encoder.encode(texts, query=True)
    usage = Usage.gather(texts, encoded, relevant, index.vectors.values, family, lexical)
    run = _LearningRun(index, usage, HardNegatives.of(usage), texts, family)
    seen, unseen = run.measured(ranked)
    reason = refusal(seen, unseen)
    everything = np.arange(len(texts))
    strengths = run.strengths(everything)
    learned = None if reason else run.learned(everything, strengths)
    report = LearningReport(
        accepted=reason is None,
        reason=reason,
        tier=tier,
        events=len(texts),
        skipped=len(events) - len(texts),
        tools=len(np.unique(np.concatenate(relevant))),
        seen=seen,
        unseen=unseen,
        strengths=strengths,
        seconds=perf_counter() - start,
    )
    return report, learned


def _lexical_weight(strategy: Strategy) -> float:
    """What a point of the lexical score counts of cosine, 0 where the two are not added."""
    fusion = getattr(strategy, "fusion", None)
    added = {"lexical", "dense"} <= set(getattr(strategy, "retrievers", ()))
    if not added or not isinstance(fusion, LinearFusion):
        return 0.0
    return fusion.weight("lexical") / (fusion.weight("dense") or 1.0)


@dataclass(frozen=True, slots=True)
class _LearningRun:
    """Learning from any part of some events.

    Args:
        index: the tools.
        usage: the events.
        negatives: of all of them.
        texts: the requests.
        family: of each tool.
    """

    index: Index
    usage: Usage
    negatives: HardNegatives
    texts: Sequence[str]
    family: Sequence[str]

    def measured(self, ranked: Ranked) -> tuple[Comparison, Comparison]:
        """Seen and unseen tools before and after, over events that were held out."""
        rows: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]]]
        rows = {"seen": [], "unseen": []}
        for fold in self._folds(np.arange(len(self.texts)), "measure"):
            if not len(fold.train):
                continue
            learned = self.learned(fold.train, self.strengths(fold.train))
            for kind, held in (("seen", fold.seen), ("unseen", fold.unseen)):
                events = _spread(held, _MEASURED)
                before, after = (self._searched(ranked, one, events) for one in (None, learned))
                rows[kind].append((events, before, after))
        return self._comparison(rows["seen"]), self._comparison(rows["unseen"])

    def strengths(self, events: NDArray[np.int64]) -> Strengths:
        """The best strengths for learning from these events, by holding parts of them out.

        What helps seen and unseen tools most together, among what does not harm the unseen; one
        setting after the other.
        """
        usable = (
            fold
            for fold in self._folds(events, "choose")
            if len(fold.train) and len(fold.seen) and len(fold.unseen)
        )
        trials: list[_Trial] = []
        held = 0
        for fold in islice(usable, _TRIALS):
            if held < _ENOUGH:
                lessons = Lessons.of(self.usage, self.negatives.among(fold.train))
                trials.append(_Trial(self.usage, lessons, fold))
                held += min(len(fold.seen), len(fold.unseen))
        if not trials:
            return Strengths()
        best, best_value = Strengths(), 0.0
        for settings in _SETTINGS:
            for option in [replace(best, **setting) for setting in settings]:
                change = np.mean([trial.change(option) for trial in trials], axis=0)
                value = float(change[0].sum() + _UNSEEN * change[1].sum())
                if change[1].min() >= 0 and value > best_value:
                    best, best_value = option, value
        return best

    def learned(self, events: NDArray[np.int64], strengths: Strengths) -> Learned:
        """What these events teach."""
        assert self.index.vectors is not None
        ids = [tool.id for tool in self.index.tools]
        lessons = Lessons.of(self.usage, self.negatives.among(events))
        return lessons.learned(strengths, ids, self.index.vectors, len(events))

    def _folds(self, events: NDArray[np.int64], salt: str) -> Sequence[Fold]:
        texts = [self.texts[event] for event in events.tolist()]
        relevant = [self.usage.relevant[event] for event in events.tolist()]
        return [
            Fold(events[fold.train], events[fold.seen], events[fold.unseen])
            for fold in folds(texts, relevant, self.family, salt)
        ]

    def _searched(
        self, ranked: Ranked, learned: Learned | None, events: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        found = np.zeros((len(events), DEPTH), np.bool_)
        due = [self.usage.relevant[event] for event in events.tolist()]
        texts = [self.texts[event] for event in events.tolist()]
        for place, rows in enumerate(ranked(learned, texts, self.usage.queries[events])):
            found[place, : len(rows)] = np.isin(rows, due[place])[:DEPTH]
        return scores(found, np.array([len(rows) for rows in due]))

    def _comparison(
        self,
        rows: Sequence[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]],
    ) -> Comparison:
        events = np.concatenate([one[0] for one in rows] or [np.empty(0, np.int64)])
        groups = [self.usage.family[self.usage.relevant[event][0]] for event in events.tolist()]
        if not groups:
            return Comparison.of(np.empty((0, 2)), np.empty((0, 2)), np.empty(0, np.int64))
        before, after = (np.concatenate([one[at] for one in rows]) for at in (1, 2))
        return Comparison.of(before, after, np.array(groups, np.int64))


def _spread(events: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """At most `count` of the events, evenly from first to last."""
    return events[:: max(1, -(-len(events) // count))]


class _Trial:
    """Strengths tried on one fold, by the sum of cosine and lexical score over candidates.

    Args:
        usage: the events.
        lessons: learned from the fold's events.
        fold: what is held out.
    """

    def __init__(self, usage: Usage, lessons: Lessons, fold: Fold) -> None:
        self._usage = usage
        self._lessons = lessons
        self._due = np.array([len(rows) for rows in usage.relevant])
        self._seen, self._unseen = _spread(fold.seen, _ENOUGH), _spread(fold.unseen, _ENOUGH)
        self._mapped: dict[float, NDArray[np.float32]] = {0.0: usage.base}
        self._before = self._scores(Strengths())

    def change(self, strengths: Strengths) -> NDArray[np.float64]:
        """Rise of each metric (columns) for seen and for unseen tools (rows)."""
        return self._scores(strengths) - self._before

    def _scores(self, strengths: Strengths) -> NDArray[np.float64]:
        lessons, share = self._lessons, strengths.shared
        if share not in self._mapped:
            self._mapped[share] = mapped(self._usage.base, np.float32(share) * lessons.map)
        values = self._mapped[share]
        if strengths.own:
            pulls = strengths.pulls(lessons.counts)
            values = moved(values, lessons.rows, lessons.targets, pulls)
        kinds = (self._seen, self._unseen)
        return np.array([self._score(values, strengths.lexical, events) for events in kinds])

    def _score(
        self, values: NDArray[np.float32], lexical: float, events: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        usage = self._usage
        candidates = usage.candidates[events]
        fused = usage.cosines(values, events) + np.float32(lexical) * usage.lexical[events]
        fused[candidates < 0] = -np.inf
        best = np.argsort(-fused, axis=1, kind="stable")[:, :DEPTH]
        found = np.take_along_axis(usage.serves[events], best, axis=1)
        mean: NDArray[np.float64] = scores(found, self._due[events]).mean(axis=0)
        return mean
