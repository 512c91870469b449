"""An encoder that reads definitions only while a test lets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from threading import enumerate as threads
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

OTHER: dict[str, Any] = {"encoder": "other", "reranker": "overlap"}


class HeldEncoder:
    """Another encoder that reads definitions only while it is let.

    Args:
        encoder: the other one.
    """

    in_process = True

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self.dim: int = encoder.dim
        self.let, self.waiting, self.left = Event(), Event(), 10**6
        self.read: list[str] = []
        self.broken: Exception | None = None

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: Any = None
    ) -> NDArray[np.float32]:
        if not query:
            if self.left <= 0:
                self.waiting.set()
            if self.left <= 0 or not self.let.is_set():
                self.waiting.set()
                assert self.let.wait(60)
            if self.broken is not None:
                raise self.broken
            self.left -= len(texts)
            if self.left <= 0:
                self.let.clear()
            self.read += texts
        return self._encoder.encode(texts, query=query, progress=progress)  # type: ignore[no-any-return]


def until(true: Callable[[], object], seconds: float = 60) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end
        sleep(0.01)


def encoding_threads() -> int:
    return sum(one.name == "shortlist-build" for one in threads())
