"""A ranking made into the hits of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .index import Index
from .query import Query, Ranking, by_id
from .run import Run
from .selection import Hit, Placement

# Rows read beyond those asked for, to find some that the mask keeps out.
_READ = 200


@dataclass(frozen=True, slots=True)
class First:
    """Rows put before all others, whatever the stages say.

    Args:
        exact: rows whose id or name the request is, best first.
        claimed: rows whose server takes the turn, in order.
    """

    exact: Sequence[int] = ()
    claimed: Sequence[int] = ()

    def stages(self) -> Iterator[tuple[str, int, Placement]]:
        """Stage name, row and placement of each."""
        for stage, rows in (("exact", self.exact), ("claim", self.claimed)):
            for place, row in enumerate(rows, 1):
                yield stage, row, Placement(place, 1.0)


def promoted(
    index: Index, query: Query, ranking: Ranking, claimed: Sequence[int] = ()
) -> tuple[Ranking, First]:
    """The ranking with tools of exactly this id or name first, then those claimed."""
    named = [row for row in index.named(query.text) if query.allowed is None or query.allowed[row]]
    if not named and not claimed:
        return ranking, First()
    places = {row: place for place, row in enumerate(ranking.rows.tolist())}
    named.sort(key=lambda row: (places.get(row, len(places)), index.tools[row].id))
    first = list(dict.fromkeys([*named, *claimed]))
    rest = ~np.isin(ranking.rows, first)
    top = max(float(ranking.scores[0]) if len(ranking) else 0.0, 0.0)
    return (
        Ranking(
            np.concatenate([np.array(first, np.int64), ranking.rows[rest]]),
            np.concatenate([np.full(len(first), top, np.float32), ranking.scores[rest]]),
        ),
        First(named, claimed),
    )


def outside(index: Index, run: Run, count: int) -> list[int]:
    """Rows outside the request's mask that would have answered it best, at most `count`.

    Found by the vector the request was encoded to, else among the best by its terms; what is
    lacking is filled up in order of id.
    """
    allowed = run.query.allowed
    if allowed is None:
        return []
    found: list[int] = []
    dense, lexical = run.retrievers.get("dense"), run.retrievers.get("lexical")
    if run.query.vector is not None and dense is not None:
        nearest = dense.search(replace(run.query, allowed=~allowed), count)
        found = by_id(nearest, index.tools).rows.tolist()
    elif lexical is not None:
        # A mask that few of the best pass would have most of the catalog read.
        ranking = lexical.search(replace(run.query, allowed=None), count + _READ)
        rows = by_id(ranking, index.tools).rows
        found = rows[~allowed[rows]][:count].tolist()
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
        first: rows that were put first, for what reason.
    """
    rows = ranking.rows.tolist()
    placements = run.placements(rows)
    for stage, row, place in first.stages():
        if row in placements:
            placements[row][stage] = place
    tools = [index.tools[row] for row in rows]
    ranks = range(1, len(rows) + 1)
    return tuple(map(Hit, tools, ranks, ranking.scores.tolist(), map(placements.__getitem__, rows)))
