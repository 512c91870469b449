"""Measures times: warm, without garbage collection, compared calls in turn."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier, Lock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
"""Milliseconds of each call, shape (calls,)."""

Call = Callable[[int], object]
"""One thing to time; takes the position of the query it is to answer."""

WARM_UP = 20
"""Untimed calls before the timed ones."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Times of a call.

    Args:
        p50_ms: median.
        p95_ms: 95th percentile.
        calls: how many were timed.
    """

    p50_ms: float
    p95_ms: float
    calls: int

    @classmethod
    def of(cls, times: Times | Sequence[float]) -> Latency:
        """Of milliseconds, at least one."""
        p50, p95 = np.percentile(times, (50, 95)).tolist()
        return cls(round(p50, 4), round(p95, 4), len(times))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"p50_ms": self.p50_ms, "p95_ms": self.p95_ms, "calls": self.calls}


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage collected before, and not during."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def warm_up(call: Call, queries: int) -> None:
    """Call without timing, so that everything is loaded and cached."""
    for position in range(min(WARM_UP, queries)):
        call(position)


def in_turn(
    calls: Mapping[str, Call],
    queries: int,
    *,
    rounds: int = 1,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Times]:
    """Time several warm calls for each query one after the other, in an order that rotates.

    Other load of the machine affects all of them alike, so that their ratios are valid.

    Args:
        calls: name to call.
        queries: how many queries there are.
        rounds: how often each is asked.
        clock: gives seconds: wall time, or CPU time where the machine is busy with other things.
    """
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    with uncollected():
        for step in range(queries * rounds):
            turn = step % len(names)
            for name in (*names[turn:], *names[:turn]):
                start = clock()
                calls[name](step % queries)
                times[name].append((clock() - start) * 1e3)
    return {name: np.array(found) for name, found in times.items()}


def at_once(call: Call, queries: int, callers: int) -> tuple[Times, float]:
    """Time a warm call from several threads at once, each query asked by one of them.

    Returns:
        Milliseconds of each call, and the calls per second of all callers together.
    """
    positions = iter(range(queries))
    lock, ready = Lock(), Barrier(callers + 1)

    def caller() -> list[float]:
        found: list[float] = []
        ready.wait()
        while True:
            with lock:
                position = next(positions, None)
            if position is None:
                return found
            start = perf_counter()
            call(position)
            found.append((perf_counter() - start) * 1e3)

    with uncollected(), ThreadPoolExecutor(callers) as pool:
        waiting = [pool.submit(caller) for _ in range(callers)]
        ready.wait()
        start = perf_counter()
        times = [ms for caller_times in waiting for ms in caller_times.result()]
        seconds = perf_counter() - start
    return np.array(times), queries / seconds
