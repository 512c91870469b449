"""Training of the bundled decision, on made data."""

from __future__ import annotations

import numpy as np
import pytest

from shortlist.decision.calibration import Example, measure_fitted
from shortlist.decision.decider import WORDING
from shortlist.decision.measurements import MEASUREMENTS
from shortlist.errors import RequestError
from shortlist.lab.deciding.decision_networks import fit_network, fit_network_tier


def test_a_network_learns_what_no_sum_can() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4_000, 2)) * [1, 50] + [0, 1_000]
    labels = (values[:, 0] > 0) == (values[:, 1] > 1_000)
    fitted = fit_network(values, labels, decay=1e-4)
    assert ((fitted(values) > 0) == labels).mean() > 0.9
    again = fit_network(values, labels, decay=1e-4)
    assert np.array_equal(fitted(values), again(values))


def test_a_constant_input_does_no_harm() -> None:
    values = np.column_stack([np.linspace(-1, 1, 200), np.full(200, 7.0)])
    fitted = fit_network(values, values[:, 0] > 0, epochs=5)
    assert np.isfinite(fitted(np.array([[0.5, 9e9]]))).all()


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Queries that a tool fits exactly where the score and the lead are high together."""
    rng = np.random.default_rng(0)
    made = []
    for group in range(400):
        measured = dict.fromkeys(MEASUREMENTS, 0.0) | {"ascii": 1.0, WORDING: 0.0}
        score, lead = rng.normal(size=2)
        measured |= {"score": score, "score_lead": lead}
        right = np.array([score + lead > 0, False])
        made.append(Example(measured, np.array([1.0, 0.5]), right, int(right[0]), True, group))
    return made


def test_a_tier_is_fitted_and_calibrated(examples: list[Example]) -> None:
    model = fit_network_tier(examples[:300], dense=True, lost=0.1)
    assert model.inputs == (*MEASUREMENTS, WORDING)
    assert model.dense
    report = measure_fitted(examples[300:], model, k=10)
    assert report.abstained is not None
    assert report.abstained > 0.7
    assert report.lost < 0.2
    fits = np.array([model.probability(one.measured) for one in examples[300:]])
    served = np.array([one.served for one in examples[300:]])
    assert abs(fits.mean() - served.mean()) < 0.1


def test_a_missing_wording_is_average(examples: list[Example]) -> None:
    model = fit_network_tier(examples[:200], dense=True, lost=0.1)
    average = float(model.classifier.centre[-1])
    measured = dict(examples[0].measured)
    known = model.probability(measured | {WORDING: average})
    del measured[WORDING]
    assert model.probability(measured) == known


def test_too_few_of_a_kind_are_refused(examples: list[Example]) -> None:
    with pytest.raises(RequestError, match="that no tool fits"):
        fit_network_tier([one for one in examples if one.served], dense=True, lost=0.1)
