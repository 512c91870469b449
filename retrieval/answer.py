"""A ranking made into the hits of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .index import Index
from .query import Query, Ranking
from .run import Run
from .selection import Hit, Placement


def promoted(index: Index, query: Query, ranking: Ranking) -> tuple[Ranking, Sequence[int]]:
    """The ranking with tools of exactly this id or name first, and their rows."""
    named = [row for row in index.named(query.text) if query.allowed is None or query.allowed[row]]
    if not named:
        return ranking, ()
    places = {row: place for place, row in enumerate(ranking.rows.tolist())}
    named.sort(key=lambda row: (places.get(row, len(places)), row))
    rest = ~np.isin(ranking.rows, named)
    top = max(float(ranking.scores[0]) if len(ranking) else 0.0, 0.0)
    return (
        Ranking(
            np.concatenate([np.array(named, np.int64), ranking.rows[rest]]),
            np.concatenate([np.full(len(named), top, np.float32), ranking.scores[rest]]),
        ),
        named,
    )


def hits_of(index: Index, run: Run, ranking: Ranking, exact: Sequence[int]) -> tuple[Hit, ...]:
    """The rows of a ranking as hits, with where every stage of the run placed each.

    Args:
        index: the catalog version that was searched.
        run: the request's run, finished.
        ranking: cut to the length of the answer.
        exact: rows whose id or name the request is, best first.
    """
    rows = ranking.rows.tolist()
    placements = run.placements(rows)
    for place, row in enumerate(exact, 1):
        if row in placements:
            placements[row]["exact"] = Placement(place, 1.0)
    return tuple(
        Hit(index.tools[row], rank, score, placements[row])
        for rank, (row, score) in enumerate(zip(rows, ranking.scores.tolist(), strict=True), 1)
    )
