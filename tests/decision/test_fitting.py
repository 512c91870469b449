from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.decision.conformal import keeping_cut, missed
from shortlist.decision.examples import right_scores
from shortlist.decision.logistic import Logistic, form_of, sigmoid
from shortlist.decision.network import Network
from shortlist.decision.report import cross_validate, measure_fitted
from shortlist.decision.tier import TierModel
from shortlist.decision.training import calibrated, fit_tier
from shortlist.errors import RequestError


def test_logistic_regression_finds_the_odds_it_was_drawn_from():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 3))
    labels = rng.random(20_000) < sigmoid(values @ np.array([1.0, -2.0, 0.0]) + 0.5)
    fitted = Logistic.fit(values, labels, ridge=1e-3)
    assert np.allclose(fitted.weights, [1, -2, 0], atol=0.1)
    assert fitted.offset == pytest.approx(0.5, abs=0.1)


@given(st.integers(0, 2**32 - 1))
def test_logistic_regression_survives_classes_that_part_cleanly(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(30, 2)) * 1000
    labels = values[:, 0] > 0
    fitted = Logistic.fit(values, labels)
    assert np.isfinite(fitted.weights).all()
    assert np.isfinite(fitted(values)).all()


def test_a_network_learns_what_no_sum_can():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4_000, 2)) * [1, 50] + [0, 1_000]
    labels = (values[:, 0] > 0) == (values[:, 1] > 1_000)
    fitted = Network.fit(values, labels, decay=1e-4)
    assert ((fitted(values) > 0) == labels).mean() > 0.9
    again = Network.fit(values, labels, decay=1e-4)
    assert np.array_equal(fitted(values), again(values))


def test_a_constant_number_does_no_harm():
    values = np.column_stack([np.linspace(-1, 1, 200), np.full(200, 7.0)])
    fitted = Network.fit(values, values[:, 0] > 0, epochs=5)
    assert np.isfinite(fitted(np.array([[0.5, 9e9]]))).all()


@pytest.fixture(scope="module")
def model(examples) -> TierModel:
    return fit_tier(examples[:300], dense=True, lost=0.1)


def test_what_is_written_is_what_decides(model, examples):
    read = TierModel.from_dict(form_of(model))
    for one in examples[300:320]:
        assert read.fitting(one.measured, one.wording) == pytest.approx(
            model.fitting(one.measured, one.wording), abs=1e-3
        )
        assert np.allclose(read.rightness(one.measured), model.rightness(one.measured), atol=1e-3)


def test_a_model_tells_what_it_was_not_fitted_to(model, examples):
    report = measure_fitted(examples[300:], model)
    assert report.abstained is not None
    assert report.abstained > 0.85
    assert report.lost < 0.1
    assert report.kept > 0.85
    assert report.offered < 7


def test_figures_are_of_requests_held_out(examples):
    def fit(some):
        groups.append({one.group for one in some})
        return calibrated(model, some)

    groups = []
    model = fit_tier(examples[:200], dense=True)
    report = cross_validate(examples[200:], [], fit)
    assert report.served == report.unserved == 100
    everything = {one.group for one in examples[200:]}
    assert all(seen < everything for seen in groups)
    assert set.union(*[everything - seen for seen in groups]) == everything


@pytest.mark.parametrize("alpha", [0.05, 0.10])
def test_the_fitted_cut_holds_over_repeated_splits(model, examples, alpha):
    served = [one for one in examples[300:] if one.served] + [
        one for one in examples[:300] if one.served
    ]
    found = [right_scores(model.rightness(one.measured), one) for one in served]
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(300):
        order = rng.permutation(len(found))
        half = [found[at] for at in order[:100]], [found[at] for at in order[100:]]
        rates.append(missed(half[1], keeping_cut(half[0], alpha)))
    assert abs(np.mean(rates) - alpha) <= 0.0101


def test_a_cut_that_cannot_hold_is_not_made(model, examples):
    few = calibrated(model, examples[:20], alpha=0.01)
    assert few.alpha is None
    assert few.keep_from == 0.0
    assert few.abstain_below == 0.0


def test_wording_unknown_is_neither_for_nor_against(model, examples):
    one = examples[0]
    told = [model.fitting(one.measured, wording) for wording in (-1.0, None, 2.0)]
    assert told == sorted(told)


def test_too_few_of_a_kind_are_refused(examples):
    with pytest.raises(RequestError, match="that no tool serves"):
        fit_tier([one for one in examples if one.served], dense=True)
    with pytest.raises(RequestError, match="nothing to calibrate on"):
        calibrated(
            fit_tier(examples[:100], dense=True), [one for one in examples if not one.served]
        )
