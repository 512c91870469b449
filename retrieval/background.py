"""Work beside searches, at a lower CPU priority."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from threading import get_native_id
from typing import TypeVar

Result = TypeVar("Result")
NICENESS = 10
"""Of the thread that works; one of 10 gets a tenth of the CPU time of one of 0 that competes."""


def in_background(
    work: Callable[[Callable[[int], None]], Result], progress: Callable[[int], None]
) -> Result:
    """The result of `work`, which runs in a thread that searches take precedence over.

    On Linux the thread has a lower priority, and so have the threads it starts. Elsewhere a
    priority belongs to a whole process and stays as it is.

    Args:
        work: takes a function to report progress with; raises what it raises. It should release
            the interpreter lock for most of its time, as an encoder does: a thread of low priority
            that has the lock and no CPU keeps every other thread waiting.
        progress: called from the caller's thread with what is reported.
    """
    reported: SimpleQueue[int | None] = SimpleQueue()
    with ThreadPoolExecutor(1, "shortlist-background", initializer=give_way) as pool:
        running = pool.submit(work, reported.put)
        running.add_done_callback(lambda _: reported.put(None))
        while (step := reported.get()) is not None:
            progress(step)
        return running.result()


def give_way() -> None:
    """Let other threads go before this one, where a thread has a priority of its own."""
    # Only Linux takes the id of a thread here. A sandbox may forbid the call.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)
