from __future__ import annotations

import gc
from collections import Counter
from time import sleep

import pytest

from shortlist.lab.bench.timing import Latency, at_once, in_turn, uncollected, warm_up


def test_latency_is_percentiles() -> None:
    latency = Latency.of([float(ms) for ms in range(1, 102)])
    assert latency == Latency(51.0, 96.0, 101)


def test_compared_calls_take_turns_in_an_order_that_rotates() -> None:
    asked: list[tuple[str, int]] = []
    calls = {name: lambda at, name=name: asked.append((name, at)) for name in "abc"}
    times = in_turn(calls, 2, rounds=2)
    assert {name: len(found) for name, found in times.items()} == {"a": 4, "b": 4, "c": 4}
    assert [at for _, at in asked] == [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3
    assert "".join(name for name, _ in asked) == "abcbcacababc"


def test_times_are_milliseconds() -> None:
    times = in_turn({"nap": lambda _: sleep(0.01)}, 3)["nap"]
    assert (times >= 10).all()
    assert (times < 1_000).all()


def test_garbage_is_not_collected_while_timing() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_several_callers_ask_each_query_once_and_overlap() -> None:
    asked: Counter[int] = Counter()

    def call(position: int) -> None:
        asked[position] += 1
        sleep(0.02)

    times, per_second = at_once(call, 16, 8)
    assert asked == Counter(range(16))
    assert len(times) == 16
    assert per_second > 60  # alone it would be at most 50


def test_a_failing_call_is_not_swallowed() -> None:
    def fail(position: int) -> None:
        raise KeyError(position)

    with pytest.raises(KeyError):
        at_once(fail, 3, 2)


def test_warming_up_is_bounded() -> None:
    asked: list[int] = []
    warm_up(asked.append, 3)
    assert asked == [0, 1, 2]
    asked.clear()
    warm_up(asked.append, 1_000)
    assert len(asked) == 20
