from __future__ import annotations

import pytest

from shortlist.retrieval.search import time_estimate
from shortlist.retrieval.search.time_estimate import TimeEstimate


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1_000.0]
    monkeypatch.setattr(time_estimate, "monotonic", lambda: now[0])
    return now


def test_refusals_change_nothing_and_retries_get_rarer(now: list[float]) -> None:
    estimate = TimeEstimate()
    assert estimate.allows(0.001)
    estimate.record(80.0)
    tried = []
    for _ in range(1_000):
        now[0] += 0.1
        if estimate.allows(50.0):
            tried.append(round(now[0] - 1_000))
            estimate.record(80.0)
    assert tried == [1, 3, 7, 15, 31, 63]
    assert estimate.ms == 80.0
    assert estimate.allows(81.0)


def test_one_slow_run_is_forgotten_by_the_next_quick_one(now: list[float]) -> None:
    estimate = TimeEstimate()
    estimate.record(5.0)
    estimate.record(505.0)
    assert estimate.ms == pytest.approx(105.0)
    assert not estimate.allows(50.0)
    now[0] += 1.0
    assert estimate.allows(50.0)
    assert not estimate.allows(50.0), "of many requests one tries"
    estimate.record(5.0)
    assert estimate.ms == 5.0


def test_a_run_that_was_given_up_only_raises_the_estimate(now: list[float]) -> None:
    estimate = TimeEstimate()
    estimate.record_unfinished(40.0)
    assert estimate.ms == 40.0
    estimate.record_unfinished(10.0)
    assert estimate.ms == 40.0
    now[0] += 600.0
    assert not estimate.allows(0.0), "without time nothing is tried"
    assert not estimate.allows(-1.0)
