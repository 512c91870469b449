"""Guard: runs the work of one stage, remembers its failures, and stops waiting at a deadline."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import TIMEOUT_MAX, Lock, Thread
from time import monotonic, perf_counter
from typing import Any, TypeVar

from ...errors import MissingExtraError, ModelError
from ...models.picking_reranker import UnusablePickError
from .query_run import BudgetExceeded, StageBusy

_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 300.0
# Seconds that the process waits at its end for threads that run a model. A thread in native code
# would abort the process while the interpreter shuts down.
_EXIT_WAIT_S = 1.0
# Seconds that a request without a budget waits for a retry of failed work.
_RETRY_WAIT_S = 1.0


_running: set[Future[Any]] = set()


@atexit.register
def _finish() -> None:
    wait(tuple(_running), _EXIT_WAIT_S)


class Guard:
    """Runs the work of one stage. Thread-safe; shared by all versions of an index.

    Work that raised a ModelError or a MissingExtraError is not tried again for a second. The wait
    doubles with each failure, up to five minutes; meanwhile `call` raises the same error at once.

    Work with a deadline runs in a daemon thread. At the deadline the caller goes on without it.
    The thread is left to finish, and until it does no other deadline work of this stage starts: at
    most one such thread exists.
    """

    def __init__(self) -> None:
        self._state = Lock()
        self._worker = Lock()
        self._overdue: Future[Any] | None = None
        self._error: Exception | None = None
        self._failures = 0
        self._retry_at = 0.0
        #: Whether any work has succeeded.
        self.has_succeeded = False

    def call(self, work: Callable[[], Result], deadline: float | None = None) -> Result:
        """What `work` returns.

        Args:
            work: takes no arguments; called in this thread, or in another one under a deadline.
            deadline: `perf_counter()` value by which the answer is due; None for no limit.

        Raises:
            ModelError: the stage failed before and is not due for another attempt.
            BudgetExceeded: the work is not finished at the deadline.
            StageBusy: it did not begin: the stage is still busy with earlier work.
            Exception: whatever `work` raises.
        """
        earlier_error = self._begin_attempt()
        if earlier_error is not None and deadline is None:
            # A retry may be as slow as the failed attempt, so the caller waits one second at most.
            try:
                return self._run_until(work, perf_counter() + _RETRY_WAIT_S)
            except BudgetExceeded as error:
                raise ModelError(f"{earlier_error}; trying again") from error
        return self._run_recorded(work) if deadline is None else self._run_until(work, deadline)

    def note_failure(self, error: Exception) -> None:
        """Remember a failure: the stage is not tried until its wait is over.

        The first failure is logged, and again the first after a success.
        """
        with self._state:
            is_first = self._failures == 0
            self._error = error
            self._failures += 1
            self._retry_at = monotonic() + self._retry_wait_s()
        if is_first:
            _LOG.warning("%s; searches use the fallback of a tier that needs it", error)

    def _begin_attempt(self) -> Exception | None:
        """The earlier failure that this attempt retries; None where there is none.

        Raises:
            ModelError: it is too early for a retry.
        """
        with self._state:
            if self._error is None:
                return None
            if monotonic() < self._retry_at:
                raise ModelError(f"{self._error} (remembered; not tried again yet)")
            # This request retries. Others get the earlier error meanwhile.
            self._retry_at = monotonic() + self._retry_wait_s()
            return self._error

    def _retry_wait_s(self) -> float:
        return min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(self._failures - 1, 30))

    def _run_recorded(self, work: Callable[[], Result]) -> Result:
        try:
            result = work()
        except UnusablePickError:
            raise  # the model works; only its answer to this query is wrong
        except (ModelError, MissingExtraError) as error:
            self.note_failure(error)
            raise
        with self._state:
            self._error, self._failures, self.has_succeeded = None, 0, True
        return result

    def _run_until(self, work: Callable[[], Result], deadline: float) -> Result:
        with self._state:
            if self._overdue is not None:
                raise StageBusy("still busy with an earlier request")
        seconds_left = _seconds_until(deadline)
        if seconds_left <= 0 or not self._worker.acquire(timeout=seconds_left):
            raise StageBusy("takes more than the time left")
        task: Future[Result] = Future()
        _running.add(task)
        thread = Thread(
            target=self._run_in_thread, args=(task, work), name="shortlist-stage", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            self._worker.release()
            _running.discard(task)
            raise StageBusy(f"no thread to run in: {error}") from error
        wait((task,), max(0.0, _seconds_until(deadline)))
        with self._state:
            if not task.done():
                self._overdue = task
                raise BudgetExceeded("takes more than the time left")
        return task.result()

    def _run_in_thread(self, task: Future[Result], work: Callable[[], Result]) -> None:
        try:
            task.set_result(self._run_recorded(work))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            task.set_exception(error)
        with self._state:
            self._overdue = None
        _running.discard(task)
        self._worker.release()


def _seconds_until(deadline: float) -> float:
    return min(deadline - perf_counter(), TIMEOUT_MAX)
