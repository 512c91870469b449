"""Objects that work only in the process that made them; a forked copy is refused, not used."""

from __future__ import annotations

import os
from threading import Lock, RLock
from types import TracebackType

from .errors import ProcessError


class ProcessGuard:
    """Remembers the process it was made in.

    A fork copies an object without the threads that serve it, and with locks that nobody releases:
    using the copy could hang.

    Args:
        what: name of the guarded object in the error, such as `engine`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()

    def check(self) -> None:
        """Do nothing in the process that made it.

        Raises:
            ProcessError: this is another process, a fork of it.
        """
        if (here := os.getpid()) != self._pid:
            raise ProcessError(
                f"this {self._what} was made in process {self._pid} and cannot be used in its "
                f"fork, process {here}: threads and locks do not survive a fork; make or open an "
                "engine in each process, after the fork, or start processes with 'spawn'"
            )


class GuardedLock(ProcessGuard):
    """A lock that a forked copy refuses to wait for.

    Args:
        what: name of the guarded object in the error.
        reentrant: whether the thread that holds it may enter it again.

    Raises:
        ProcessError: entered in another process than the one that made it.
    """

    def __init__(self, what: str, *, reentrant: bool = False) -> None:
        super().__init__(what)
        self._lock = RLock() if reentrant else Lock()

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
