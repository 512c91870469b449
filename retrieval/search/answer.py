"""A ranking made into the hits of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import RequestError
from ..catalog_index import Index
from ..id_lookup import asked_name
from ..query import Query, Ranking
from ..selection import Hit, StageResult
from .query_run import Run

#: Stages whose hits no threshold drops: the request is the tool's id or name, or its server takes
#: the turn.
FINAL = frozenset({"exact", "claim"})
# Rows read beyond those asked for, to find some that the mask keeps out.
_READ = 200


#: Stage to the rows that it puts before all others, in order: `exact`, whose id or name the request
#: is, and `claim`, whose server takes the turn.
First = Mapping[str, Sequence[int]]


def permitted(ranking: Ranking, mask: NDArray[np.bool_] | None, rows: int) -> Ranking:
    """The ranking without rows that the mask leaves out, rows that do not exist and repetitions.

    The last check on every answer, whatever strategy made it.

    Args:
        ranking: ranking of a strategy.
        mask: rows the request may use, shape (rows,), or None for all.
        rows: number of rows of the index.

    Raises:
        RequestError: the strategy gave something else than a Ranking.
    """
    found, scores = np.asarray(ranking.rows), np.asarray(ranking.scores)
    if (
        found.ndim != 1
        or found.shape != scores.shape
        or not (np.issubdtype(found.dtype, np.integer) or not len(found))
    ):
        raise RequestError(
            "tier: its strategy gave no Ranking of row numbers and as many scores, both of shape "
            f"(n,), but rows {found.dtype} {found.shape} and scores {scores.dtype} {scores.shape}"
        )
    kept = (found >= 0) & (found < rows)
    if mask is not None:
        kept[kept] = mask[found[kept]]
    order = np.argsort(found, kind="stable")
    again = found[order[1:]] == found[order[:-1]]
    kept[order[1:][again]] = False
    return ranking if bool(kept.all()) else Ranking(found[kept], scores[kept], ranking.rest)


def promoted(
    index: Index, query: Query, ranking: Ranking, claimed: Sequence[int] = ()
) -> tuple[Ranking, First]:
    """The ranking with the tool of exactly this id first, those of this name, those claimed."""
    named = [row for row in index.named(query.text) if query.allowed is None or query.allowed[row]]
    if not named and not claimed:
        return ranking, {}
    places = {row: place for place, row in enumerate(ranking.rows.tolist())}
    owner = index.rows.get(asked_name(query.text))
    named.sort(key=lambda row: (row != owner, places.get(row, len(places)), index.tools[row].id))
    first = list(dict.fromkeys([*named, *claimed]))
    rest = ~np.isin(ranking.rows, first)
    top = max(float(ranking.scores[0]) if len(ranking) else 0.0, 0.0)
    return (
        Ranking(
            np.concatenate([np.array(first, np.int64), ranking.rows[rest]]),
            np.concatenate([np.full(len(first), top, np.float32), ranking.scores[rest]]),
        ),
        {"exact": named, "claim": claimed},
    )


def outside(index: Index, run: Run, allowed: NDArray[np.bool_] | None, count: int) -> list[int]:
    """Rows outside a mask that would have answered the request best, at most `count`.

    Found by the vector the request was encoded to, else among the best by its terms; what is
    lacking is filled up in order of id.
    """
    if allowed is None:
        return []
    found: list[int] = []
    dense, lexical = run.retrievers.get("dense"), run.retrievers.get("lexical")
    if run.query.vector is not None and dense is not None:
        nearest = dense.search(replace(run.query, allowed=~allowed), count)
        found = nearest.rows.tolist()
    elif lexical is not None:
        # A mask that few of the best pass would have most of the catalog read.
        ranking = lexical.search(replace(run.query, allowed=None), count + _READ)
        found = ranking.rows[~allowed[ranking.rows]][:count].tolist()
    if len(found) < count:
        first = index.by_id(~allowed)[: count + len(found)].tolist()
        found = list(dict.fromkeys([*found, *first]))
    return found[:count]


def hits_of(index: Index, run: Run, ranking: Ranking, first: First) -> tuple[Hit, ...]:
    """The rows of a ranking as hits, with where every stage of the run placed each.

    Args:
        index: the catalog version that was searched.
        run: the request's run, finished.
        ranking: cut to the length of the answer.
        first: rows that were put first, see `First`.
    """
    rows = ranking.rows.tolist()
    placements = run.placements(rows)
    for stage, put_first in first.items():
        for place, row in enumerate(put_first, 1):
            if row in placements:
                placements[row][stage] = StageResult(place, 1.0)
    tools = [index.tools[row] for row in rows]
    ranks = range(1, len(rows) + 1)
    queries = [index.example_queries.get(tool.id) for tool in tools]
    sources = [() if each is None else each.sources for each in queries]
    scores = ranking.scores.tolist()
    return tuple(map(Hit, tools, ranks, scores, map(placements.__getitem__, rows), sources))


def split_at(
    threshold: float | None, ranked: Sequence[Hit]
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """The hits that a threshold keeps, and those that it drops.

    The score that counts is the tier's final one: the reranker's in a tier with a reranker, whose
    candidates beyond those that it scored are dropped; otherwise that of the fusion, or of the only
    retriever. Hits of the stages in `FINAL` are kept.

    Args:
        threshold: score below which hits are dropped; None for none.
        ranked: hits, best first.
    """
    if threshold is None:
        return tuple(ranked), ()
    reranked = any("rerank" in hit.stages for hit in ranked)
    kept: list[Hit] = []
    dropped: list[Hit] = []
    for hit in ranked:
        scored = not reranked or "rerank" in hit.stages
        named = not FINAL.isdisjoint(hit.stages)
        (kept if named or (scored and hit.score >= threshold) else dropped).append(hit)
    return tuple(kept), tuple(dropped)


def below_threshold(score: float, threshold: float | None, tier: str) -> str:
    """The end of a sentence that says why the threshold of a tier drops a score."""
    return f"score is {score:.4g}, and tier {tier!r} drops scores below {threshold:.4g}"
