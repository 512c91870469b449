from __future__ import annotations

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.retrieval import ranking_metrics

DEPTH = 15

queries = st.lists(
    st.tuples(
        st.permutations([f"t{n}" for n in range(20)]).map(lambda ids: ids[:DEPTH]),
        st.sets(st.sampled_from([f"t{n}" for n in range(20)]), min_size=1, max_size=13),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(queries)
def test_metrics_agree_with_trec_eval(cases: list[tuple[list[str], set[str]]]) -> None:
    qrels = {str(n): dict.fromkeys(relevant, 1) for n, (_, relevant) in enumerate(cases)}
    runs = {
        str(n): {tool_id: float(-rank) for rank, tool_id in enumerate(ranking)}
        for n, (ranking, _) in enumerate(cases)
    }
    measures = {"success.1,3", "recall.5,10", "ndcg_cut.10", "recip_rank"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(runs)
    judgement = ranking_metrics.judge([r for r, _ in cases], [w for _, w in cases], depth=DEPTH)
    found = dict(
        zip(ranking_metrics.QUALITY_METRICS, ranking_metrics.quality(judgement).T, strict=True)
    )
    names = {
        "hit@1": "success_1",
        "hit@3": "success_3",
        "recall@5": "recall_5",
        "recall@10": "recall_10",
        "ndcg@10": "ndcg_cut_10",
        "mrr": "recip_rank",
    }
    for ours, theirs in names.items():
        want = [expected[str(n)][theirs] for n in range(len(cases))]
        np.testing.assert_allclose(found[ours], want, atol=1e-9, err_msg=ours)
    np.testing.assert_array_equal(found["complete@10"] == 1, found["recall@10"] == 1)


def test_one_of_several_relevant_at_rank_one_is_a_hit() -> None:
    judgement = ranking_metrics.judge([["a", "x", "b"]], [{"a", "b", "c"}], depth=3)
    assert ranking_metrics.hit_at(judgement, 1)[0] == 1.0
    assert ranking_metrics.recall_at(judgement, 3)[0] == pytest.approx(2 / 3)
    assert ranking_metrics.complete_at(judgement, 3)[0] == 0.0


def test_more_relevant_than_ranks_is_never_complete() -> None:
    judgement = ranking_metrics.judge([["a", "b"]], [{"a", "b", "c"}], depth=2)
    assert ranking_metrics.complete_at(judgement, 2)[0] == 0.0
    assert ranking_metrics.ndcg_at(judgement, 2)[0] == pytest.approx(1.0)


def test_nothing_returned_scores_nothing() -> None:
    judgement = ranking_metrics.judge([[]], [{"a"}], depth=1)
    assert not ranking_metrics.quality(judgement).any()


def test_a_query_without_relevant_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="abstention"):
        ranking_metrics.judge([["a"]], [set()], depth=1)


@settings(deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=40),
    st.integers(0, 5),
)
def test_intervals_lie_within_the_values_and_repeat(scores: list[float], seed: int) -> None:
    values = np.array(scores)[:, None]
    low, high = ranking_metrics.bootstrap_interval(values, seed=seed, resamples=200)
    assert min(scores) - 1e-9 <= low[0] <= high[0] <= max(scores) + 1e-9
    again = ranking_metrics.bootstrap_interval(values, seed=seed, resamples=200)
    assert (again[0] == low).all()
    assert (again[1] == high).all()


def test_interval_has_the_width_theory_gives() -> None:
    values = np.r_[np.zeros(150), np.ones(250)][:, None]
    low, high = ranking_metrics.bootstrap_interval(values, resamples=4000)
    half = 1.96 * np.sqrt(0.625 * 0.375 / 400)
    assert low[0] == pytest.approx(0.625 - half, abs=0.006)
    assert high[0] == pytest.approx(0.625 + half, abs=0.006)


def test_blocks_of_resampling_do_not_change_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).random((50, 2))
    whole = ranking_metrics.bootstrap_interval(values, resamples=100)
    monkeypatch.setattr(ranking_metrics, "_CELLS_A_BLOCK", 350)
    np.testing.assert_array_equal(ranking_metrics.bootstrap_interval(values, resamples=100), whole)


def test_no_query_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no query"):
        ranking_metrics.bootstrap_interval(np.empty((0, 1)))


def test_abstention() -> None:
    abstained = np.array([True, True, False, False, True])
    unserved = np.array([True, False, True, False, True])
    assert ranking_metrics.abstention(abstained, unserved) == (2 / 3, 2 / 3)


def test_abstention_is_undefined_where_there_is_nothing_to_divide_by() -> None:
    assert ranking_metrics.abstention(np.array([False]), np.array([True])) == (None, 0.0)
    assert ranking_metrics.abstention(np.array([True]), np.array([False])) == (0.0, None)


def test_groups_are_redrawn_whole() -> None:
    rng = np.random.default_rng(0)
    of_group = rng.normal(size=(30, 1))
    groups = np.repeat(np.arange(30), 10)
    values = of_group[groups]
    low, high = ranking_metrics.bootstrap_interval(values, groups=groups)
    alone_low, alone_high = ranking_metrics.bootstrap_interval(values)
    one_each = ranking_metrics.bootstrap_interval(of_group)
    np.testing.assert_allclose((low, high), one_each)
    assert (high - low) > 2 * (alone_high - alone_low)
