"""Work beside searches, at a lower CPU priority."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import current_thread, get_native_id

import pytest

from shortlist.indexing.background import ENCODING_NICENESS, at_low_priority


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, get_native_id())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux")
def test_the_work_and_the_threads_it_starts_have_a_lower_priority() -> None:
    def work(_: Callable[[int], None]) -> tuple[int, int]:
        with ThreadPoolExecutor(1) as pool:
            return niceness(), pool.submit(niceness).result()

    before = niceness()
    expected = max(before, ENCODING_NICENESS)
    assert at_low_priority(work, lambda _: None) == (expected, expected)
    assert niceness() == before


def test_progress_is_reported_in_order_to_the_callers_thread() -> None:
    reported: list[tuple[int, object]] = []

    def work(report: Callable[[int], None]) -> str:
        for step in range(5):
            report(step)
        return current_thread().name

    found = at_low_priority(work, lambda step: reported.append((step, current_thread())))
    assert found != current_thread().name
    assert reported == [(step, current_thread()) for step in range(5)]


def test_what_the_work_raises_is_raised() -> None:
    def work(_: Callable[[int], None]) -> None:
        raise ValueError("no vectors")

    with pytest.raises(ValueError, match="no vectors"):
        at_low_priority(work, lambda _: None)


def test_what_the_report_raises_is_raised() -> None:
    def report(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at_low_priority(lambda advance: advance(1), report)


def test_without_permission_the_work_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", forbidden)
    assert at_low_priority(lambda _: 3, lambda _: None) == 3
