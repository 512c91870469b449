from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.decision import TierModel
from shortlist.decision.calibration import (
    Example,
    best_threshold,
    cross_validate,
    fit_tier,
    lowest_kept,
    measure_fitted,
)
from shortlist.decision.classifier import Classifier, sigmoid
from shortlist.errors import RequestError
from shortlist.retrieval.selection import StageResult


def test_logistic_regression_finds_the_odds_it_was_drawn_from():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 3)) * [1, 10, 1] + [0, 100, 0]
    odds = values @ np.array([1.0, -0.2, 0.0]) + 20.5
    fitted = Classifier.fit(values, rng.random(20_000) < sigmoid(odds), ridge=1e-3)
    assert np.allclose(fitted.weights / fitted.scale, [1, -0.2, 0], atol=0.1)
    assert np.allclose(fitted(values[:100]), odds[:100], atol=0.3)


@given(st.integers(0, 2**32 - 1))
def test_logistic_regression_survives_classes_that_are_cleanly_separated(seed):
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.normal(size=(30, 2)) * 1000, np.full(30, 7.0)])
    labels = values[:, 0] > 0
    fitted = Classifier.fit(values, labels)
    assert np.isfinite(fitted.weights).all()
    assert np.isfinite(fitted(values)).all()


def test_a_network_is_saved_and_read():
    network = Classifier(
        centre=np.array([1.0, 2.0]),
        scale=np.array([1.0, 2.0]),
        weights=np.array([0.5, -1.0, 2.0]),
        offset=0.25,
        hidden=np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]]),
        biases=np.array([0.0, 0.1, 0.2]),
    )
    values = np.array([[2.0, 4.0], [0.0, -99.0]])
    inputs = np.array([[1.0, 1.0], [-1.0, -6.0]])
    expected = np.tanh(inputs @ network.hidden + network.biases) @ network.weights + 0.25
    assert np.allclose(network(values), expected)
    assert np.allclose(Classifier.from_dict(network.to_dict())(values), expected)
    with pytest.raises(ValueError):
        Classifier.from_dict({**network.to_dict(), "biases": [0.0] * 2})


def fitted_to(examples: list[Example], **settings: object) -> TierModel:
    return fit_tier(examples, [], **{"base": None, "reranker": None, "k": 10} | settings)


@pytest.fixture(scope="module")
def model(examples) -> TierModel:
    return fitted_to(examples[:300], lost=0.1)


def test_what_is_written_is_what_decides(model, examples):
    read = TierModel.from_dict(model.to_dict())
    for one in examples[300:320]:
        assert read.probability(one.measured) == pytest.approx(model.probability(one.measured))


def test_a_model_judges_what_it_was_not_fitted_to(model, examples):
    report = measure_fitted(examples[300:], model, k=10)
    assert report.abstained is not None
    assert report.abstained > 0.85
    assert report.lost < 0.1
    assert report.kept > 0.85
    assert report.offered < 7
    assert report.f1 > 2 * report.f1_of_all


def test_figures_are_of_queries_held_out(examples):
    def fit(some, made):
        groups.append({one.group for one in some})
        assert made == []
        return fit_tier(some, made, base=model, reranker=None, k=10)

    groups = []
    model = fitted_to(examples[:200])
    report = cross_validate(examples[200:], [], fit, k=10)
    assert report.served == report.unserved == 100
    everything = {one.group for one in examples[200:]}
    assert all(seen < everything for seen in groups)
    assert set.union(*[everything - seen for seen in groups]) == everything


def test_made_negatives_are_measured_only_without_others(examples):
    served = [one for one in examples if one.served]
    made = [one for one in examples if not one.served]

    def fit(some, made):
        return fit_tier(some, made, base=None, reranker=None, k=10)

    assert cross_validate(served, made, fit, k=10).unserved == len(made)
    assert cross_validate([*served, *made[:100]], made[100:], fit, k=10).unserved == 100


def test_a_base_model_is_kept_and_only_its_limits_are_chosen(model, examples):
    again = fit_tier(examples[300:], [], base=model, reranker=None, k=10, lost=0.2)
    assert again.fits is model.fits
    served = [model.probability(one.measured) for one in examples[300:] if one.served]
    assert again.abstain_below == sorted(served)[int(0.2 * (len(served) + 1) + 1e-9) - 1]


def test_few_queries_never_abstain(model, examples):
    few = fit_tier(examples[:20], [], base=model, reranker=None, k=10)
    assert few.abstain_below == 0.0


@given(st.lists(st.floats(0, 1), max_size=80), st.floats(0, 0.5))
def test_at_most_the_given_share_is_below(values, lost):
    limit = lowest_kept(np.array(values), lost)
    assert sum(value < limit for value in values) <= lost * len(values)


def test_too_few_of_a_kind_are_refused(examples):
    served = [one for one in examples if one.served]
    with pytest.raises(RequestError, match="that no tool fits"):
        fitted_to(served)
    with pytest.raises(RequestError, match="nothing to calibrate on"):
        fitted_to([one for one in examples if not one.served])
    assert fitted_to(examples, threshold=False).threshold is None


def labelled(scores: list[float], right: list[bool], due: int | None = None) -> Example:
    due = sum(right) if due is None else due
    return Example({}, np.array(scores), np.array(right, np.bool_), due, False, 0)


def test_the_threshold_has_the_highest_f1():
    examples = [
        labelled([0.9, 0.5, 0.2], [True, False, False]),
        labelled([0.8, 0.7, 0.1], [True, True, False]),
    ]
    # From 0.7 on, three right tools are offered and no other.
    assert best_threshold(examples, 10) == 0.7
    # With one hit a query, none is wrong.
    assert best_threshold(examples, 1) is None


def test_no_query_with_a_right_tool_loses_all_its_hits():
    examples = [labelled([0.9, 0.5], [True, False])] * 20 + [labelled([0.3, 0.2], [True, False])]
    assert best_threshold(examples, 10) == 0.3
    without_right = [*examples[:20], labelled([0.3, 0.2], [False, False], due=1)]
    assert best_threshold(without_right, 10) == 0.9


def test_hits_of_one_score_are_kept_together():
    examples = [labelled([0.5, 0.5, 0.1], [True, False, False])]
    assert best_threshold(examples, 10) == 0.5


def test_a_threshold_is_the_score_of_a_scored_hit():
    examples = [labelled([np.inf, 0.4, -np.inf], [True, False, False])]
    assert best_threshold(examples, 10) == 0.4
    assert best_threshold([labelled([np.inf, -np.inf], [True, False])], 10) is None
    assert best_threshold([], 10) is None


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4]), st.booleans()), max_size=6),
        max_size=6,
    )
)
def test_no_allowed_threshold_has_a_higher_f1(rows):
    examples = [
        labelled([s for s, _ in sorted(row)[::-1]], [r for _, r in sorted(row)[::-1]])
        for row in rows
    ]

    def f1(threshold: float) -> float:
        kept = [(one.scores >= threshold) for one in examples]
        right = sum(int((k & one.right).sum()) for k, one in zip(kept, examples, strict=True))
        return (
            2
            * right
            / max(1, sum(int(k.sum()) for k in kept) + sum(one.relevant_count for one in examples))
        )

    threshold = best_threshold(examples, 10)
    limit = min((one.scores.max() for one in examples if one.right.any()), default=0.0)
    allowed = [value for value in (0.0, 0.1, 0.2, 0.3, 0.4) if value <= limit]
    assert (threshold or 0.0) in allowed
    assert f1(threshold or 0.0) == pytest.approx(max(map(f1, allowed)))


def test_hits_that_no_threshold_drops_are_marked(made_answer):
    found = made_answer("anything", [0.5, 0.4])
    named = found.hits[0]._replace(stages={"exact": StageResult(1, 1.0)})
    reranked = found.hits[1]._replace(stages={"rerank": StageResult(1, 0.4)})
    beyond = found.hits[1]._replace(tool=Tool("beyond", None, "beyond the candidates", {}))
    marked = Example.of(replace(found, hits=(named, reranked, beyond)), ())
    assert marked.scores.tolist() == [np.inf, 0.4, -np.inf]
