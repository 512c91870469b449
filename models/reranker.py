"""The protocol of rerankers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


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
