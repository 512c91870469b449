"""A stage's work under a deadline, its failures, and when it is tried again."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread, active_count
from time import perf_counter, sleep

import pytest

from shortlist.errors import ModelError
from shortlist.retrieval.search import stage_guard as module
from shortlist.retrieval.search.query_run import BudgetExceeded
from shortlist.retrieval.search.stage_guard import Guard


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time that back-off goes by; it starts at 0."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def set_time(seconds: float) -> None:
        now[0] = seconds

    return set_time


def deadline(ms: float) -> float:
    return perf_counter() + ms / 1e3


def fails() -> None:
    raise ModelError("no weights")


def test_the_first_failure_is_logged_and_the_first_after_a_success(
    clock: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard()
    for now, logged in ((0.0, 1), (2.0, 1), (10.0, 1)):
        clock(now)
        with pytest.raises(ModelError):
            guard.call(fails)
        assert len(caplog.records) == logged
    clock(100.0)
    guard.call(int)
    with pytest.raises(ModelError):
        guard.call(fails)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "no weights" in caplog.text


def test_without_a_deadline_work_runs_in_the_callers_thread() -> None:
    from threading import current_thread

    assert Guard().call(current_thread) is current_thread()
    assert Guard().call(current_thread, deadline(60_000)) is not current_thread()


def test_a_failure_is_remembered_and_the_wait_doubles_up_to_five_minutes(
    clock: Callable[[float], None],
) -> None:
    guard, attempts = Guard(), []

    def work() -> None:
        attempts.append(0)
        fails()

    now = 0.0
    for wait in (1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300):
        clock(now)
        with pytest.raises(ModelError, match="no weights"):
            guard.call(work)
        before = len(attempts)
        clock(now + wait - 0.1)
        with pytest.raises(ModelError, match=r"no weights.*not tried again yet"):
            guard.call(work)
        assert len(attempts) == before
        now += wait + 0.1
    clock(now)
    assert guard.call(lambda: "fine") == "fine"
    with pytest.raises(ModelError):
        guard.call(work)
    clock(now + 1.1)
    assert guard.call(lambda: "fine") == "fine", "a success starts the waits anew"


def test_a_retry_that_is_slow_holds_nobody_up_for_long(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RETRY_WAIT_S", 0.05)
    guard, release = Guard(), Event()
    guard.note_failure(ModelError("no weights"))
    clock(1.1)
    start = perf_counter()
    with pytest.raises(ModelError, match="no weights; trying again"):
        guard.call(release.wait)
    with pytest.raises(ModelError, match="not tried again yet"):
        guard.call(fails)
    assert perf_counter() - start < 20
    release.set()
    for _ in range(3_000):
        if guard.has_succeeded:
            break
        sleep(0.01)
    assert guard.call(lambda: "fine") == "fine"


def test_work_that_hangs_is_left_at_the_deadline_and_only_once() -> None:
    guard, release = Guard(), Event()
    before = active_count()
    start = perf_counter()
    with pytest.raises(BudgetExceeded, match="more than the time left"):
        guard.call(release.wait, deadline(30))
    assert perf_counter() - start < 20
    for _ in range(20):
        start = perf_counter()
        with pytest.raises(BudgetExceeded, match="still busy"):
            guard.call(release.wait, deadline(60_000))
        assert perf_counter() - start < 30
    assert active_count() == before + 1
    assert guard.call(lambda: "fine") == "fine", "work without a deadline is not kept out"
    release.set()
    for _ in range(3_000):
        if active_count() == before:
            break
        sleep(0.01)
    assert guard.call(lambda: "fine", deadline(60_000)) == "fine"


def test_eight_callers_leave_one_hanging_thread() -> None:
    guard, release = Guard(), Event()
    before = active_count()
    times: list[float] = []

    def caller() -> None:
        start = perf_counter()
        with pytest.raises(BudgetExceeded):
            guard.call(release.wait, deadline(400))
        times.append(perf_counter() - start)

    threads = [Thread(target=caller) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(times) == 8
    assert max(times) < 20
    assert active_count() == before + 1
    release.set()


def test_other_errors_reach_the_caller_and_are_not_remembered() -> None:
    guard = Guard()
    with pytest.raises(ZeroDivisionError):
        guard.call(lambda: 1 // 0, deadline(60_000))
    assert guard.call(lambda: 3, deadline(60_000)) == 3
