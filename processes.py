"""What concerns the whole process: its forks, its garbage collection, and its freed memory.

Objects that work only in the process that made them raise an error in a forked copy.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, RLock

from .errors import ProcessError


class _ThisProcess:
    """The id of this process, without a system call each time.

    Attributes:
        pid: the id.
    """

    def __init__(self) -> None:
        self.update()
        if sys.platform != "win32":
            os.register_at_fork(after_in_child=self.update)

    def update(self) -> None:
        self.pid = os.getpid()


_this_process = _ThisProcess()


class ProcessGuard:
    """Checks that an object is used in the process that made it.

    A fork copies an object without its threads. Its locks may then never be released. Using the
    copy could hang.

    Args:
        name: name of the guarded object in the error, such as `engine`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._pid = _this_process.pid

    def check(self) -> None:
        """Do nothing in the process that made it.

        Raises:
            ProcessError: this is another process, a fork of it.
        """
        if (pid := _this_process.pid) != self._pid:
            raise ProcessError(
                f"this {self._name} was made in process {self._pid} and cannot be used in its "
                f"fork, process {pid}: threads and locks do not survive a fork; make or open an "
                "engine in each process, after the fork, or start processes with 'spawn'"
            )


class GuardedLock(ProcessGuard):
    """A lock that raises in a forked process instead of waiting.

    Args:
        name: name of the guarded object in the error.
        reentrant: whether the thread that has the lock may enter it again.

    Raises:
        ProcessError: it is entered in another process than the one that made it.
    """

    def __init__(self, name: str, *, reentrant: bool = False) -> None:
        super().__init__(name)
        self._lock = RLock() if reentrant else Lock()

    def __enter__(self) -> None:
        self.check()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@contextmanager
def paused_gc() -> Iterator[None]:
    """Without garbage collection, as context or decorator.

    While an index is made or opened, nearly all new objects stay, and each collection looks at all
    of them: a sixth of the time that a process needs to its first answer.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def return_freed_memory() -> None:
    """Return freed memory of native libraries to the system, where the C library can do that.

    glibc keeps freed memory in an arena for each thread. A library that works in threads of its own
    leaves its largest need in each of them: 200 builds of an index over 17 tools left 130 MB.
    """
    malloc_trim = _malloc_trim()
    if malloc_trim is not None:
        malloc_trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """`malloc_trim` of glibc; None in another C library."""
    try:
        function: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):
        return None  # Windows opens no library without a name
    return function
