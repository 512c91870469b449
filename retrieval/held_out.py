"""Which events are held out of learning, and whether what it changed for them is beyond noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ranking_metrics import Judgement, bootstrap_interval, hit_at, recall_at
from .usage import numbered

#: Parts that events and tools are dealt into; each is held out once.
PARTS = 5
#: Ranks that the metrics look at.
DEPTH = 10
METRICS = ("hit@1", "recall@10")
#: Held-out requests, of each kind, below which nothing can be said.
LEAST = 20
#: Share by which a metric may seem to fall on unseen tools when that is within noise.
SLACK = 0.005
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
        family: family of each row, see `usage.families`.

    Yields:
        `PARTS` folds.
    """
    random = np.random.default_rng(0)
    event_part = random.integers(PARTS, size=len(queries))[numbered(queries)]
    tool_part = random.integers(PARTS, size=len(family))[family]
    touched = [np.unique(tool_part[rows]) for rows in relevant]
    for part in range(PARTS):
        outside = np.array([part not in held for held in touched], np.bool_)
        inside = np.array([len(held) == 1 and held[0] == part for held in touched], np.bool_)
        train = np.flatnonzero(outside & (event_part != part))
        known = np.zeros(len(family), np.bool_)
        for event in train.tolist():
            known[relevant[event]] = True
        held_out = np.flatnonzero(outside & (event_part == part))
        seen = [event for event in held_out.tolist() if known[relevant[event]].all()]
        yield Fold(train, np.array(seen, np.int64), np.flatnonzero(inside))


def scores(judgement: Judgement) -> NDArray[np.float64]:
    """The `METRICS` of each request, shape (n, 2)."""
    return np.column_stack([hit_at(judgement, 1), recall_at(judgement, DEPTH)])


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
        change = np.column_stack([change, change.mean(axis=1)])
        low, high = bootstrap_interval(change, groups=groups, resamples=_RESAMPLES)
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
        return tuple(b - a for a, b in zip(self.before, self.after, strict=True))


def refusal(seen: Comparison, unseen: Comparison) -> str | None:
    """Why what was learned is not taken, or None if it is.

    Two conditions must hold. On held-out requests of tools with events, the mean of the metrics
    rises beyond noise and neither metric falls. On requests of tools without events, neither falls
    beyond noise, or by more than `SLACK`.
    """
    for name, kind in (("seen", seen), ("unseen", unseen)):
        if kind.events < LEAST:
            return (
                f"too few events: {kind.events} held-out requests of {name} tools, "
                f"{LEAST} are needed to tell"
            )
    for metric, change in zip(METRICS, seen.change, strict=True):
        if change < 0:
            return f"{metric} of tools with events falls by {-change:.1%} on held-out requests"
    if seen.gain[0] <= 0:
        return "no rise beyond noise on held-out requests of tools with events"
    for metric, change, high in zip(METRICS, unseen.change, unseen.high, strict=True):
        if high < 0 or change < -SLACK:
            return f"{metric} of tools without events falls by {-change:.1%} on held-out requests"
    return None
