"""What a reranker is, and how a name becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .hub import is_sentence_transformers, locate


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and a text together and says how well the text answers the query."""

    @property
    def name(self) -> str:
        """What the reranker was loaded as, for reports."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of everything the scores depend on: weights, tokenizer, settings."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query.

        Args:
            query: the query.
            texts: the texts; of a pair that exceeds the model's window the longer is cut.

        Returns:
            One raw score (a logit, unbounded) per text, float32 of shape (len(texts),).
        """
        ...


def load_reranker(spec: str, *, threads: int | None = None) -> Reranker:
    """Load a reranker by name.

    Args:
        spec: the name of a bundled cross-encoder; a local folder; ``org/name`` on the Hugging Face
            hub; or ``sentence-transformers:NAME`` for any cross-encoder that library loads.
        threads: CPU threads for one call; by default two, or one on a single-core machine.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded or run.
        MissingExtraError: the spec needs an optional dependency that is not installed.
    """
    if is_sentence_transformers(spec):
        from .sentence_transformers import SentenceTransformersReranker

        return SentenceTransformersReranker(spec.partition(":")[2], threads=threads)
    from .onnx_reranker import OnnxReranker

    return OnnxReranker(locate(spec), threads=threads)
