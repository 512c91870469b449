"""An encoder that is loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Lock

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .encoder import Advance, Encoder


class LazyEncoder:
    """Another encoder, loaded on the first call of `load` or of a method that encodes.

    Thread-safe.

    Args:
        fingerprint: that the encoder will have.
        dim: length of its vectors.
        load: loads it.

    Attributes:
        wanted: set once somebody has asked for it before it was loaded.
    """

    in_process = True
    """Whether a call runs in this process and takes about as long as the last one."""

    def __init__(self, fingerprint: str, dim: int, load: Callable[[], Encoder]) -> None:
        self.name = "bundled"
        self.fingerprint = fingerprint
        self.dim = dim
        self.wanted = Event()
        self._load = load
        self._lock = Lock()
        self._loaded: Encoder | None = None
        self._failure: str | None = None

    def load(self) -> Encoder:
        """The encoder itself.

        Raises:
            ModelError: it cannot be loaded, or is another one.
            MissingExtraError: an optional dependency is not installed.
        """
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._checked(self._load())
                except Exception as error:
                    self._failure = str(error)
                    raise
            return self._loaded

    def _checked(self, found: Encoder) -> Encoder:
        if found.fingerprint != self.fingerprint:
            raise ModelError(
                f"encoder {found.name!r} is not the one that the static tables were trained for; "
                "install shortlist again"
            )
        return found

    def missing(self) -> str | None:
        """Why it cannot encode at once; None if it can."""
        if self._loaded is not None:
            return None
        self.wanted.set()
        return self._failure or "is not loaded yet"

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: Advance | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        return self.load().encode(texts, query=query, progress=progress)
