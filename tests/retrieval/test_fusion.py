"""Fusion: what every one owes, and reciprocal ranks against a plain reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shortlist.errors import ConfigError
from shortlist.retrieval import Ranking
from shortlist.retrieval.fusion import ReciprocalRankFusion

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


def test_an_unknown_weight_names_the_stages() -> None:
    fusion = ReciprocalRankFusion(weights={"lexicla": 2.0})
    with pytest.raises(ConfigError, match=r"lexicla.*lexical, dense"):
        fusion.fuse({"lexical": ranking([1]), "dense": ranking([2])})


@pytest.mark.parametrize("arguments", [{"k": -1}, {"weights": {"dense": -0.1}}])
def test_negative_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="negative"):
        ReciprocalRankFusion(**arguments)
