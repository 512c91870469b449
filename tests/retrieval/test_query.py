"""Ranking: the best of unordered rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.retrieval import Ranking
from shortlist.retrieval.query import distinct, ties_by_row

SCORES = st.lists(st.sampled_from([0.0, 0.5, 0.5000001, 1.0, -1.0]), max_size=40)


@settings(deadline=None, max_examples=300)
@given(data=st.data(), scores=SCORES, depth=st.integers(1, 45))
def test_best_is_the_head_of_the_sorted_rows(
    data: st.DataObject, scores: list[float], depth: int
) -> None:
    rows = data.draw(st.permutations(range(len(scores))))
    pairs = sorted(zip(np.float32(scores).tolist(), rows, strict=True), key=lambda p: (-p[0], p[1]))
    best = Ranking.best(np.array(rows, np.int64), np.array(scores, np.float32), depth)
    assert best.rows.tolist() == [row for _, row in pairs[:depth]]
    assert best.scores.tolist() == [score for score, _ in pairs[:depth]]


def test_head_and_empty() -> None:
    ranking = Ranking(np.array([3, 1], np.int64), np.array([2, 1], np.float32))
    assert ranking.head(1).rows.tolist() == [3]
    assert len(ranking.head(9)) == 2
    assert len(Ranking.empty()) == 0


@given(st.lists(st.integers(0, 9)))
def test_distinct_values(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


def test_only_neighbours_of_equal_score_change_places() -> None:
    ranking = Ranking(
        np.array([3, 2, 4, 1, 0]),
        np.array([2.0, 2.0, 1.0, 3.0, 3.0], np.float32),
        max_other_score=0.5,
    )
    ordered = ties_by_row(ranking)
    assert ordered.rows.tolist() == [2, 3, 4, 0, 1]
    assert ordered.scores.tolist() == ranking.scores.tolist()
    assert ordered.max_other_score == 0.5
    assert ties_by_row(Ranking.empty()).rows.tolist() == []
