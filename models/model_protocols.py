"""The protocols of encoders and rerankers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Advance: TypeAlias = Callable[[int], None]
"""Called with the number of texts that were encoded since the last call."""


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into unit vectors whose dot product is their similarity."""

    @property
    def name(self) -> str:
        """Name of the encoder, for reports."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything the vectors depend on: weights, tokenizer, settings."""
        ...

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: Advance | None = None
    ) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: the texts, in any number and of any length. Longer texts than the model's window
                are cut.
            query: whether the texts are queries; some models read queries and documents
                differently.
            progress: called with the number of texts done since the last call.

        Returns:
            L2-normalised vectors, float32 of shape (len(texts), dim), in the order of the texts.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and a text together and says how well the text answers the query."""

    @property
    def name(self) -> str:
        """Name of the reranker, for reports."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything the scores depend on: weights, tokenizer, settings."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query.

        Args:
            query: the query.
            texts: the texts. If a pair is longer than the model's window, the longer text is cut.

        Returns:
            One raw score (a logit, unbounded) per text, float32 of shape (len(texts),).
        """
        ...
