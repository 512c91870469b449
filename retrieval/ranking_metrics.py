"""Ranking metrics over many queries at once, their bootstrap intervals, and abstention.

All metrics are computed from a `Judgement`: which ranks have a relevant tool, and how many relevant
tools there are. Queries that no tool fits are not part of ranking metrics; only `abstention` uses
them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
"""Bootstrap resamples: the usual count at which a 95 % interval's ends move in the third digit."""

_CELLS_A_BLOCK = 4_000_000
"""Cells of the resampling matrix held at a time (32 MB), so that 60,000 queries stay cheap."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The ranks of the relevant tools of each query.

    Args:
        is_relevant: bool, (queries, depth); `is_relevant[i, r]` is whether query i had a relevant
            tool at rank r + 1.
        relevant: int, (queries,); number of relevant tools of each query, at least one.
    """

    is_relevant: NDArray[np.bool_]
    relevant: NDArray[np.int64]


def judge(
    rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]], *, depth: int
) -> Judgement:
    """Compare rankings with the relevant tools.

    Args:
        rankings: for each query, the returned ids, best first, each at most once.
        relevant: for each query, the relevant ids, at least one.
        depth: number of ranks used; deeper hits count as not returned.

    Raises:
        ValueError: the two differ in length, or a query has nothing relevant.
    """
    is_relevant = np.zeros((len(rankings), depth), dtype=np.bool_)
    counts = np.zeros(len(rankings), dtype=np.int64)
    for row, (ranking, tool_ids) in enumerate(zip(rankings, relevant, strict=True)):
        relevant_ids = frozenset(tool_ids)
        if not relevant_ids:
            raise ValueError(f"query {row} has nothing relevant: judge it by abstention instead")
        counts[row] = len(relevant_ids)
        for rank, tool_id in enumerate(ranking[:depth]):
            is_relevant[row, rank] = tool_id in relevant_ids
    return Judgement(is_relevant, counts)


def hit_at(judgement: Judgement, k: int) -> NDArray[np.float64]:
    """1 where any relevant tool is among the first k; with several relevant, one is enough."""
    return np.asarray(judgement.is_relevant[:, :k].any(axis=1), dtype=np.float64)


def recall_at(judgement: Judgement, k: int) -> NDArray[np.float64]:
    """Share of the relevant tools among the first k."""
    return np.asarray(judgement.is_relevant[:, :k].sum(axis=1) / judgement.relevant)


def complete_at(judgement: Judgement, k: int) -> NDArray[np.float64]:
    """1 where every relevant tool is among the first k; never 1 with more than k relevant."""
    complete = judgement.is_relevant[:, :k].sum(axis=1) == judgement.relevant
    return np.asarray(complete, dtype=np.float64)


def ndcg_at(judgement: Judgement, k: int) -> NDArray[np.float64]:
    """Normalised discounted cumulative gain with binary gains and log2(rank + 1) discounts.

    Source: Järvelin and Kekäläinen 2002, in the form of trec_eval's ndcg_cut.
    """
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    depth = min(k, judgement.is_relevant.shape[1])
    gained = judgement.is_relevant[:, :depth] @ discounts[:depth]
    best = np.concatenate(([0.0], np.cumsum(discounts)))
    return np.asarray(gained / best[np.minimum(judgement.relevant, k)], dtype=np.float64)


def reciprocal_rank(judgement: Judgement) -> NDArray[np.float64]:
    """1 / rank of the first relevant tool, 0 where none was returned."""
    first_place = judgement.is_relevant.argmax(axis=1)
    return np.where(judgement.is_relevant.any(axis=1), 1.0 / (first_place + 1), 0.0)


QUALITY_METRICS = ("hit@1", "hit@3", "recall@5", "recall@10", "complete@10", "ndcg@10", "mrr")
"""The ranking metrics every report carries, in the order it carries them."""


def quality(judgement: Judgement) -> NDArray[np.float64]:
    """Every metric of `QUALITY_METRICS` for every query, (queries, metrics)."""
    return np.column_stack(
        (
            hit_at(judgement, 1),
            hit_at(judgement, 3),
            recall_at(judgement, 5),
            recall_at(judgement, 10),
            complete_at(judgement, 10),
            ndcg_at(judgement, 10),
            reciprocal_rank(judgement),
        )
    )


def bootstrap_interval(
    values: NDArray[np.float64],
    *,
    groups: NDArray[np.int64] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Percentile bootstrap interval (95 %) of the mean over queries (Efron 1979).

    Every column is resampled with the same queries, so columns may be compared.

    Args:
        values: (queries, metrics), at least one query.
        groups: number of each query's group, (queries,). Whole groups are redrawn, because queries
            of one group rise and fall together (cluster bootstrap; Efron and Tibshirani 1993,
            chapter 8). Without groups, each query is redrawn by itself.
        seed: random seed of the resampling; the same seed and values give the same interval.
        resamples: how many times the queries are redrawn.

    Returns:
        Lower and upper ends, each (metrics,).

    Raises:
        ValueError: there is no query to resample.
    """
    if len(values) == 0:
        raise ValueError("no query to resample")
    sums, sizes = values, np.ones(len(values))
    if groups is not None:
        _, group_of_query, counts = np.unique(groups, return_inverse=True, return_counts=True)
        sums, sizes = np.zeros((len(counts), values.shape[1])), counts.astype(np.float64)
        np.add.at(sums, group_of_query, values)
    units = len(sums)
    rng = np.random.default_rng(seed)
    even = np.full(units, 1.0 / units)
    means = np.empty((resamples, values.shape[1]))
    block = max(1, _CELLS_A_BLOCK // units)
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        drawn = rng.multinomial(units, even, size=stop - start)
        means[start:stop] = (drawn @ sums) / (drawn @ sizes)[:, None]
    low, high = np.quantile(means, (0.025, 0.975), axis=0)
    return low, high


def abstention(
    abstained: NDArray[np.bool_], unserved: NDArray[np.bool_]
) -> tuple[float | None, float | None]:
    """Precision and recall of abstentions.

    Args:
        abstained: bool, (queries,); the answer was empty.
        unserved: bool, (queries,); no tool fits the query.

    Returns:
        The share of abstentions that were right (None without an abstention) and the share of
        unserved queries abstained on (None without an unserved query).
    """
    right = int((abstained & unserved).sum())
    abstentions, unserved_count = int(abstained.sum()), int(unserved.sum())
    return (right / abstentions if abstentions else None), (
        right / unserved_count if unserved_count else None
    )
