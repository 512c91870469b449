from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.decision.conformal import keeping_cut, missed

scores = st.lists(
    st.lists(st.floats(-5, 5) | st.just(-np.inf), min_size=1, max_size=4).map(np.array),
    min_size=1,
    max_size=60,
)


@given(scores, st.floats(0.01, 0.5))
def test_the_cut_loses_what_the_formula_allows_and_no_higher_one_does(examples, alpha):
    cut = keeping_cut(examples, alpha)
    allowed = (alpha * (len(examples) + 1) - 1) / len(examples)
    if not np.isneginf(cut):
        assert missed(examples, cut) <= allowed + 1e-9
    higher = sorted({value for one in examples for value in one if value > cut})
    if higher and allowed >= 0:
        assert missed(examples, higher[0]) > allowed - 1e-9


@given(scores)
def test_a_smaller_alpha_never_cuts_higher(examples):
    cuts = [keeping_cut(examples, alpha) for alpha in (0.02, 0.05, 0.1, 0.3)]
    assert cuts == sorted(cuts)


@pytest.mark.parametrize("alpha", [0.05, 0.10])
def test_the_promise_holds_on_fresh_data_over_repeated_splits(alpha):
    rng = np.random.default_rng(1)
    rates = []
    for _ in range(120):
        # One to three right tools each, some not found, in units that mean nothing.
        drawn = [
            np.where(rng.random(size) < 0.02, -np.inf, rng.gumbel(size=size))
            for size in rng.integers(1, 4, 300)
        ]
        rates.append(missed(drawn[150:], keeping_cut(drawn[:150], alpha)))
    assert alpha - 0.01 < np.mean(rates) < alpha + 0.006


def test_no_cut_promises_what_the_search_does_not_find():
    lost = [np.array([-np.inf])] * 10 + [np.array([1.0])] * 90
    assert keeping_cut(lost, 0.05) == -np.inf
    assert keeping_cut(lost, 0.2) == 1.0


def test_too_few_examples_promise_nothing():
    assert keeping_cut([np.array([0.3])] * 18, 0.05) == -np.inf
    assert keeping_cut([np.array([0.3])] * 19, 0.05) == 0.3
    assert keeping_cut([], 0.05) == -np.inf
    assert missed([], 1.0) == 0.0
