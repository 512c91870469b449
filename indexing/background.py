"""Builds beside searches: in a thread of their own, at a lower priority where they encode."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, Event, Thread, get_native_id, main_thread
from typing import Any, TypeVar
from weakref import WeakMethod, WeakSet

from ..errors import ShortlistError

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)
_START_S = 0.5
"""Seconds until the first step: a process answers its first requests before it loads a model."""
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 300.0
_EXIT_WAIT_S = 60.0
"""How long the end of the process waits for the texts in work, a tenth of a second where nothing
else runs. A thread that is in native code when the interpreter goes would abort the process."""
ENCODING_NICENESS = 10
"""Of a thread that encodes; one of 10 gets a tenth of the CPU time of one of 0 that competes."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far the present build of an engine is.

    Args:
        total: number of tools.
        encoded: how many of them need no further work of the encoder.
        error: error of the last try, or None. The build is tried again, less and less often.
        newly_encoded: how many tools were encoded to make the present index.

    Example:
        >>> from shortlist import Engine, Tool
        >>> progress = Engine.from_tools([Tool("list_invoices", "billing")]).build_progress
        >>> progress.encoded, progress.total, progress.done, progress.error
        (1, 1, True, None)
    """

    total: int
    encoded: int
    error: str | None = None
    newly_encoded: int = 0

    @property
    def done(self) -> bool:
        """Whether searches use the whole newest version."""
        return self.encoded == self.total

    @property
    def fraction(self) -> float:
        """Share of the tools that are encoded, 0 to 1."""
        return self.encoded / self.total if self.total else 1.0


_alive: WeakSet[BackgroundBuild] = WeakSet()


@atexit.register
def _finish() -> None:
    for build in tuple(_alive):
        build.close(_EXIT_WAIT_S)


class BackgroundBuild:
    """Runs a step in a thread until there is nothing left to do. Thread-safe.

    Args:
        step: a method that does a part of a build and returns whether there is more to do. No
            reference is kept that keeps its object alive.
    """

    def __init__(self, step: WeakMethod[Callable[[], bool]]) -> None:
        self._step = step
        self._state = Condition()
        self._hurry = Event()
        self._stopped = Event()
        self._thread: Thread | None = None
        self._is_requested = False
        self._pid = os.getpid()
        self.error: str | None = None
        """Why the last step failed; None if it did not."""
        _alive.add(self)

    def start(self) -> None:
        """Run, if it does not yet."""
        with self._state:
            self._is_requested = True
            if self._thread is None and not self._stopped.is_set():
                thread = Thread(target=self._run, name="shortlist-build", daemon=True)
                thread.start()
                self._thread = thread

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until there is nothing left to do, a step fails, it is closed, or time is up."""
        self._hurry.set()
        with self._state:
            self._state.wait_for(lambda: self._thread is None or self.error is not None, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Stop after the step in work; harmless in a fork, which has no such thread."""
        if os.getpid() != self._pid:
            return
        self._stopped.set()
        self._hurry.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        self._hurry.wait(_START_S)
        failures = 0
        while not self._stopped.is_set():
            with self._state:
                self._is_requested = False
            step: Any = self._step()
            if step is None:
                break
            try:
                more, error = step(), None
            except Exception as failure:  # noqa: BLE001 - reported, and the thread may end
                if _process_ends(failure):
                    break
                if isinstance(failure, ShortlistError):
                    more, error = True, str(failure)
                else:
                    _LOG.exception("the build has stopped; searches use the version before")
                    more, error = False, f"{type(failure).__name__}: {failure}"
            del step
            if error is not None and error != self.error:
                _LOG.warning("the build failed: %s", error)
            failures = failures + 1 if error else 0
            with self._state:
                self.error = error
                self._state.notify_all()
                if not more and not self._is_requested:
                    self._thread = None
                    return
            if error is not None:
                self._stopped.wait(min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2.0 ** (failures - 1)))
        with self._state:
            self._thread = None
            self._state.notify_all()


def _process_ends(failure: BaseException | None) -> bool:
    """Whether a step failed because the process ends: no module or thread can be started then."""
    if not main_thread().is_alive():
        return True
    while failure is not None:
        # The main thread still counts as alive while executors are being shut down.
        if isinstance(failure, RuntimeError) and "shutdown" in str(failure):
            return True
        failure = failure.__cause__
    return False


def at_low_priority(
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
    result: Future[Result] = Future()
    result.add_done_callback(lambda _: reported.put(None))

    def run() -> None:
        _give_way()
        try:
            result.set_result(work(reported.put))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            result.set_exception(error)

    thread = Thread(target=run, name="shortlist-encoding", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return work(progress)  # the process ends, and starts no threads any more
    try:
        while (step := reported.get()) is not None:
            progress(step)
    finally:
        thread.join()
    return result.result()


def _give_way() -> None:
    """Let other threads go before this one, where a thread has a priority of its own."""
    # Only Linux takes the id of a thread here. A sandbox may forbid the call.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), ENCODING_NICENESS)
