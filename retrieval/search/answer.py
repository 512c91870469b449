"""Makes the hits of an answer from a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import RequestError
from ..catalog_index import Index
from ..id_lookup import name_in_query
from ..query import Query, Ranking
from ..selection import Hit, StageResult
from .query_run import QueryRun

#: Stages whose hits no threshold drops. `exact`: the query is the tool's id or name. `literal`: the
#: query spells the tool's name out. `claim`: the tool's server claims the turn.
STAGES_ABOVE_THRESHOLD = frozenset({"exact", "literal", "claim"})
# Rows read beyond the requested number, because permitted ones among them are left out.
_EXTRA_ROWS = 200


#: Each of `STAGES_ABOVE_THRESHOLD` to the rows that it puts before all others, in order.
RowsPutFirst = Mapping[str, Sequence[int]]


def keep_permitted(ranking: Ranking, mask: NDArray[np.bool_] | None, row_count: int) -> Ranking:
    """The ranking without rows that the mask leaves out, rows that do not exist and repetitions.

    The last check on every answer, whatever strategy made it.

    Args:
        ranking: ranking of a strategy.
        mask: rows the request may use, shape (row_count,), or None for all.
        row_count: number of rows of the index.

    Raises:
        RequestError: the strategy gave something else than a Ranking.
    """
    rows, scores = np.asarray(ranking.rows), np.asarray(ranking.scores)
    are_row_numbers = np.issubdtype(rows.dtype, np.integer) or not len(rows)
    if rows.ndim != 1 or rows.shape != scores.shape or not are_row_numbers:
        raise RequestError(
            "tier: its strategy gave no Ranking of row numbers and as many scores, both of shape "
            f"(n,), but rows {rows.dtype} {rows.shape} and scores {scores.dtype} {scores.shape}"
        )
    is_permitted = (rows >= 0) & (rows < row_count)
    if mask is not None:
        is_permitted[is_permitted] = mask[rows[is_permitted]]
    order = np.argsort(rows, kind="stable")
    is_repetition = rows[order[1:]] == rows[order[:-1]]
    is_permitted[order[1:][is_repetition]] = False
    if is_permitted.all():
        return ranking
    return Ranking(rows[is_permitted], scores[is_permitted], ranking.max_other_score)


def put_named_first(
    index: Index, query: Query, ranking: Ranking, claimed_rows: Sequence[int] = ()
) -> tuple[Ranking, RowsPutFirst]:
    """The ranking with these first: the tool with this id, those with this name, claimed ones.

    If none has this name, those whose name is spelled out in the query follow.
    """
    named = [
        row for row in index.rows_named(query.text) if query.allowed is None or query.allowed[row]
    ]
    spelled_out = () if named else index.rows_spelled_out(query, ranking.rows)
    if not named and not spelled_out and not claimed_rows:
        return ranking, {}
    places = {row: place for place, row in enumerate(ranking.rows.tolist())}
    row_of_id = index.rows.get(name_in_query(query.text))
    named.sort(
        key=lambda row: (row != row_of_id, places.get(row, len(places)), index.tools[row].id)
    )
    first_rows = list(dict.fromkeys([*named, *claimed_rows, *spelled_out]))
    is_other = ~np.isin(ranking.rows, first_rows)
    top = max(float(ranking.scores[0]) if len(ranking) else 0.0, 0.0)
    return (
        Ranking(
            np.concatenate([np.array(first_rows, np.int64), ranking.rows[is_other]]),
            np.concatenate([np.full(len(first_rows), top, np.float32), ranking.scores[is_other]]),
        ),
        {"exact": named, "literal": spelled_out, "claim": claimed_rows},
    )


def best_denied_rows(
    index: Index, run: QueryRun, allowed: NDArray[np.bool_] | None, count: int
) -> list[int]:
    """At most `count` denied rows, those that fit the query best first.

    They are found by the query's vector, or by its terms if it has no vector. If these are too few,
    further denied rows follow in order of id.
    """
    if allowed is None:
        return []
    rows: list[int] = []
    dense, lexical = run.retrievers.get("dense"), run.retrievers.get("lexical")
    if run.query.vector is not None and dense is not None:
        rows = dense.search(replace(run.query, allowed=~allowed), count).rows.tolist()
    elif lexical is not None:
        # Without a mask: if few of the best rows pass a mask, an index reads most of the catalog.
        ranking = lexical.search(replace(run.query, allowed=None), count + _EXTRA_ROWS)
        rows = ranking.rows[~allowed[ranking.rows]][:count].tolist()
    if len(rows) < count:
        first_by_id = index.rows_in_id_order(~allowed)[: count + len(rows)].tolist()
        rows = list(dict.fromkeys([*rows, *first_by_id]))
    return rows[:count]


def hits_of_ranking(
    index: Index, run: QueryRun, ranking: Ranking, rows_put_first: RowsPutFirst
) -> tuple[Hit, ...]:
    """The rows of a ranking as hits, with their rank and score in every stage of the run.

    Args:
        index: the catalog version that was searched.
        run: the request's run, finished.
        ranking: cut to the length of the answer.
        rows_put_first: see `RowsPutFirst`.
    """
    rows = ranking.rows.tolist()
    placements = run.placements(rows)
    for stage, stage_rows in rows_put_first.items():
        for place, row in enumerate(stage_rows, 1):
            if row in placements:
                placements[row][stage] = StageResult(place, 1.0)
    tools = [index.tools[row] for row in rows]
    ranks = range(1, len(rows) + 1)
    example_queries = [index.example_queries.get(tool.id) for tool in tools]
    sources = [() if queries is None else queries.sources for queries in example_queries]
    scores = ranking.scores.tolist()
    return tuple(map(Hit, tools, ranks, scores, map(placements.__getitem__, rows), sources))


def split_at_threshold(
    threshold: float | None, ranked: Sequence[Hit]
) -> tuple[tuple[Hit, ...], tuple[Hit, ...]]:
    """The hits that a threshold keeps, and those that it drops.

    The final score of the tier counts: that of the reranker, else of the fusion, else of the only
    retriever. If a reranker ran, hits that it did not score are dropped. Hits of the stages in
    `STAGES_ABOVE_THRESHOLD` are always kept.

    Args:
        threshold: score below which hits are dropped; None for none.
        ranked: hits, best first.
    """
    if threshold is None:
        return tuple(ranked), ()
    reranked = any("rerank" in hit.stages for hit in ranked)
    offered: list[Hit] = []
    dropped: list[Hit] = []
    for hit in ranked:
        is_always_kept = not STAGES_ABOVE_THRESHOLD.isdisjoint(hit.stages)
        has_final_score = not reranked or "rerank" in hit.stages
        if is_always_kept or (has_final_score and hit.score >= threshold):
            offered.append(hit)
        else:
            dropped.append(hit)
    return tuple(offered), tuple(dropped)


def below_threshold(score: float, threshold: float | None, tier: str) -> str:
    """The end of a sentence that says why the threshold of a tier drops a score."""
    return f"score is {score:.4g}, and tier {tier!r} drops scores below {threshold:.4g}"
