"""Encoding beside searches: tools that have static vectors get the encoder's, batch by batch."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Event, Thread
from typing import Any
from weakref import WeakMethod, WeakSet

from .errors import MissingExtraError, ModelError
from .retrieval.background import give_way

_LOG = logging.getLogger(__name__)
_START_S = 0.5
"""Seconds until the encoder is loaded: the first requests of a process come before it."""
_ANSWER_S = 0.05
"""How long it waits when a request asks for the encoder: that request is answered first."""
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 300.0
_EXIT_WAIT_S = 60.0
"""How long the end of the process waits for the texts in work, a tenth of a second where nothing
else runs. A thread that is in native code when the interpreter goes would abort the process."""

Step = Callable[[Callable[[], bool]], bool]
"""Encodes one batch, unless the function it is given says to stop; returns whether more waits."""


@dataclass(frozen=True, slots=True)
class Ready:
    """How far the encoder is with the tools of an engine.

    Args:
        total: number of tools.
        encoded: how many of them the encoder has read; the others have static vectors.
        error: error of the last try, or None. The encoder is tried again, less and less often.

    Example:
        >>> from shortlist import Engine, Tool
        >>> ready = Engine.from_tools([Tool("list_invoices", "billing")]).ready
        >>> ready.encoded, ready.total, ready.done, ready.error
        (1, 1, True, None)
    """

    total: int
    encoded: int
    error: str | None = None

    @property
    def done(self) -> bool:
        """Whether the encoder has read all tools."""
        return self.encoded == self.total

    @property
    def fraction(self) -> float:
        """Share of the tools that it has read, 0 to 1."""
        return self.encoded / self.total if self.total else 1.0


_alive: WeakSet[BackgroundEncoding] = WeakSet()


@atexit.register
def _finish() -> None:
    for one in tuple(_alive):
        one.close(_EXIT_WAIT_S)


class BackgroundEncoding:
    """Runs a step in a thread of low priority until nothing waits any more. Thread-safe.

    Args:
        step: a method, of which no reference is kept that keeps its object alive.
        wanted: starts the first step early.
    """

    def __init__(self, step: WeakMethod[Step], wanted: Event | None = None) -> None:
        self._step = step
        self._wanted = wanted or Event()
        self._state = Condition()
        self._stopped = Event()
        self._thread: Thread | None = None
        self._again = False
        self._pid = os.getpid()
        self.error: str | None = None
        """Why the last step failed; None if it did not."""
        _alive.add(self)

    def start(self) -> None:
        """Run, if it does not yet."""
        with self._state:
            self._again = True
            if self._thread is None and not self._stopped.is_set():
                thread = Thread(target=self._run, name="shortlist-encoding", daemon=True)
                thread.start()
                self._thread = thread

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until nothing waits any more, a step has failed, it was closed, or time is up."""
        self._wanted.set()
        with self._state:
            self._state.wait_for(lambda: self._thread is None or self.error is not None, timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Stop after the texts in work; harmless in a fork, which has no such thread."""
        if os.getpid() != self._pid:
            return
        self._stopped.set()
        self._wanted.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        give_way()
        if self._wanted.wait(_START_S):
            self._stopped.wait(_ANSWER_S)
        failures = 0
        while not self._stopped.is_set():
            with self._state:
                self._again = False
            step: Any = self._step()
            if step is None:
                break
            try:
                more, error = step(self._stopped.is_set), None
            except (ModelError, MissingExtraError) as failure:
                more, error = True, str(failure)
            except Exception as failure:  # noqa: BLE001 - reported, and the thread ends
                _LOG.exception("encoding has stopped; new tools keep their static vectors")
                more, error = False, f"{type(failure).__name__}: {failure}"
            del step
            if error is not None and error != self.error:
                _LOG.warning("encoding failed: %s", error)
            failures = failures + 1 if error else 0
            with self._state:
                self.error = error
                self._state.notify_all()
                if not more and not self._again:
                    self._thread = None
                    return
            if error is not None:
                self._stopped.wait(min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2.0 ** (failures - 1)))
        with self._state:
            self._thread = None
            self._state.notify_all()
