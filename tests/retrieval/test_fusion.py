"""Fusion: what every one owes, and reciprocal ranks against a plain reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Tool
from shortlist.errors import ConfigError
from shortlist.retrieval import Ranking
from shortlist.retrieval.query import Query
from shortlist.retrieval.search.fusion import LinearFusion, ReciprocalRankFusion
from shortlist.retrieval.search.query_run import QueryRun

from .vectors import assert_ranked

STAGES = ("lexical", "dense", "third")


def ranking(rows: list[int]) -> Ranking:
    return Ranking(np.array(rows, np.int64), np.linspace(1, 0.5, len(rows), dtype=np.float32))


RANKINGS = st.dictionaries(
    st.sampled_from(STAGES),
    st.lists(st.integers(0, 40), unique=True, max_size=25).map(ranking),
    min_size=1,
)


def reference(
    rankings: Mapping[str, Ranking], k: float, weights: Mapping[str, float]
) -> list[tuple[int, float]]:
    scores: dict[int, float] = {}
    for stage, found in rankings.items():
        for place, row in enumerate(found.rows.tolist(), 1):
            scores[row] = scores.get(row, 0.0) + weights.get(stage, 1.0) / (k + place)
    rounded = {row: float(np.float32(score)) for row, score in scores.items()}
    return sorted(rounded.items(), key=lambda pair: (-pair[1], pair[0]))


@settings(deadline=None)
@given(rankings=RANKINGS)
def test_every_fusion_ranks_the_union(fusion_method: Any, rankings: dict[str, Ranking]) -> None:
    union = {row for found in rankings.values() for row in found.rows.tolist()}
    fused = fusion_method().fuse(rankings)
    assert_ranked(fused, len(union))
    assert set(fused.rows.tolist()) == union


@settings(deadline=None, max_examples=300)
@given(
    rankings=RANKINGS,
    k=st.floats(0, 200),
    weights=st.fixed_dictionaries({stage: st.floats(0, 8) for stage in STAGES}),
)
def test_scores_are_weighted_reciprocal_ranks(
    rankings: dict[str, Ranking], k: float, weights: dict[str, float]
) -> None:
    known = {stage: weight for stage, weight in weights.items() if stage in rankings}
    fused = ReciprocalRankFusion(k, known).fuse(rankings)
    expected = reference(rankings, k, known)
    assert fused.rows.tolist() == [row for row, _ in expected]
    np.testing.assert_allclose(fused.scores, [score for _, score in expected], rtol=1e-6)


@settings(deadline=None, max_examples=100)
@given(rankings=RANKINGS)
def test_a_stage_that_agrees_with_itself_keeps_its_order(
    fusion_method: Any, rankings: dict[str, Ranking]
) -> None:
    found = next(iter(rankings.values()))
    assert fusion_method().fuse({"dense": found}).rows.tolist() == found.rows.tolist()


def test_every_fusion_refuses_an_unknown_weight(fusion_method: Any) -> None:
    with pytest.raises(ConfigError, match=r"lexicla.*lexical, dense"):
        fusion_method(weights={"lexicla": 2.0}).fuse(
            {"lexical": ranking([1]), "dense": ranking([2])}
        )


def test_every_fusion_refuses_negative_weights(fusion_method: Any) -> None:
    with pytest.raises(ConfigError, match="negative"):
        fusion_method(weights={"dense": -0.1})


class TestLinear:
    def test_scores_are_weighted_sums(self) -> None:
        lexical = Ranking(np.array([4, 2]), np.array([10, 5], np.float32))
        dense = Ranking(np.array([2, 4]), np.array([0.5, 0.25], np.float32))
        fused = LinearFusion({"lexical": 0.1}).fuse({"lexical": lexical, "dense": dense})
        assert fused.rows.tolist() == [4, 2]
        assert fused.scores.tolist() == pytest.approx([1.25, 1.0])

    def test_a_lead_counts_where_ranks_would_not_tell(self) -> None:
        clear = Ranking(np.array([4, 2]), np.array([10, 1], np.float32))
        photo = Ranking(np.array([2, 4]), np.array([0.5, 0.49], np.float32))
        fused = LinearFusion({"lexical": 1.0}).fuse({"lexical": clear, "dense": photo})
        assert fused.rows.tolist() == [4, 2]

    def test_a_stage_that_found_nothing_adds_nothing(self) -> None:
        dense = Ranking(np.array([2, 4]), np.array([0.5, 0.25], np.float32))
        fused = LinearFusion().fuse({"lexical": Ranking.empty(), "dense": dense})
        assert fused.scores.tolist() == [0.5, 0.25]


def test_the_default_is_sixty() -> None:
    fused = ReciprocalRankFusion().fuse({"lexical": ranking([4])})
    assert fused.scores[0] == pytest.approx(1 / 61)


def test_ties_go_to_the_lower_row() -> None:
    fused = ReciprocalRankFusion().fuse({"lexical": ranking([9, 2]), "dense": ranking([2, 9])})
    assert fused.rows.tolist() == [2, 9]
    fused = ReciprocalRankFusion().fuse({"lexical": ranking([9]), "dense": ranking([2])})
    assert fused.rows.tolist() == [2, 9]


def test_agreement_beats_one_first_place() -> None:
    fused = ReciprocalRankFusion().fuse({"lexical": ranking([1, 5]), "dense": ranking([3, 5])})
    assert fused.rows.tolist() == [5, 1, 3]


def test_a_weight_decides_between_stages() -> None:
    rankings = {"lexical": ranking([1, 2]), "dense": ranking([2, 1])}
    assert ReciprocalRankFusion(weights={"dense": 2}).fuse(rankings).rows.tolist() == [2, 1]
    assert ReciprocalRankFusion(weights={"lexical": 2}).fuse(rankings).rows.tolist() == [1, 2]


def test_rankings_without_rows_fuse_to_none() -> None:
    assert len(ReciprocalRankFusion().fuse({"lexical": Ranking.empty()})) == 0


def test_a_negative_k_is_refused() -> None:
    with pytest.raises(ConfigError, match="negative"):
        ReciprocalRankFusion(k=-1)


def test_a_tool_without_a_match_counts_as_zero_where_every_match_is_listed() -> None:
    dense = Ranking(np.array([0, 1]), np.array([0.5, 0.45], np.float32))
    matched = Ranking(np.array([1]), np.array([10.0], np.float32), max_other_score=0.0)
    fused = LinearFusion({"lexical": 0.01}).fuse({"dense": dense, "lexical": matched})
    assert fused.rows.tolist() == [1, 0]
    assert fused.scores == pytest.approx([0.55, 0.5])


def test_beyond_the_depth_of_a_ranking_its_lowest_score_is_assumed() -> None:
    dense = Ranking(np.array([0, 1]), np.array([0.5, 0.45], np.float32))
    cut = Ranking(np.array([1]), np.array([10.0], np.float32))
    fused = LinearFusion({"lexical": 0.01}).fuse({"dense": dense, "lexical": cut})
    assert fused.rows.tolist() == [0, 1]


def test_words_weigh_more_where_the_best_row_has_all_terms_of_the_query() -> None:
    dense = Ranking(np.array([5, 7]), np.array([0.52, 0.50], np.float32), 0.1)
    lexical = Ranking(np.array([7, 5]), np.array([10.0, 4.0], np.float32), 0.0)
    fused = {}
    for share in (None, 0.4, 1.0):
        covering = replace(lexical, best_covers=share)
        fused[share] = LinearFusion().fuse({"lexical": covering, "dense": dense})
    assert fused[None].rows.tolist() == [7, 5]
    np.testing.assert_allclose(fused[None].scores, [0.5 + 0.006 * 10, 0.52 + 0.006 * 4], 1e-6)
    np.testing.assert_allclose(fused[1.0].scores, [0.5 + 0.015 * 10, 0.52 + 0.015 * 4], 1e-6)
    assert fused[0.4].scores[0] == pytest.approx(0.5 + (0.006 + 0.009 * 0.4**4) * 10)
    given = LinearFusion({"lexical": 0.006}).fuse({"lexical": covering, "dense": dense})
    np.testing.assert_array_equal(given.scores, fused[None].scores)


def test_terms_that_no_row_has_do_not_count_as_uncovered() -> None:
    lexical = Ranking(np.array([0]), np.array([10.0], np.float32), 0.0)
    dense = Ranking(np.array([0]), np.array([0.5], np.float32), 0.1)
    for searched, share in ((None, 0.5), (["file"], 1.0)):
        run = QueryRun(Query("file vikunja"), 5, {}, {}, tools=[Tool("file", "disk")])
        words = replace(lexical, searched_terms=searched)
        fused = run.fuse(LinearFusion(), {"lexical": words, "dense": dense})
        assert fused.scores[0] == pytest.approx(0.5 + (0.006 + 0.009 * share**4) * 10)


def test_the_best_row_by_words_stays_among_the_first_five_but_for_requests_of_many_steps() -> None:
    dense = Ranking(np.arange(20), np.linspace(0.9, 0.5, 20).astype(np.float32), 0.5)
    for term_count, share, place in ((6, 0.5, 4), (5, 0.2, 4), (6, 0.4, 18)):
        terms = [f"term{number}" for number in range(term_count)]
        lexical = Ranking(np.array([30]), np.array([6.0], np.float32), 0.0, share, terms)
        fused = LinearFusion().fuse({"lexical": lexical, "dense": dense})
        assert sorted(fused.rows.tolist()) == [*range(20), 30]
        assert (np.diff(fused.scores) <= 0).all()
        assert fused.rows.tolist().index(30) == place
