"""What an encoder is, and how a name becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .hub import is_sentence_transformers, locate

DEFAULT_ENCODER = "shortlist-embed"
"""The bundled encoder that ``bundled`` means."""


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into unit vectors whose dot product is their similarity."""

    @property
    def name(self) -> str:
        """What the encoder was loaded as, for reports."""
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
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: the texts, in any number and of any length; what exceeds the model's window is
                cut.
            query: whether the texts are queries; some models read queries and documents
                differently.
            progress: called with the number of texts done since the last call.

        Returns:
            L2-normalised vectors, float32 of shape (len(texts), dim), in the order of the texts.
        """
        ...


def load_encoder(spec: str = "bundled", *, threads: int | None = None) -> Encoder:
    """Load an encoder by name.

    Args:
        spec: ``bundled``; the name of a bundled model; a local folder; ``org/name`` on the
            Hugging Face hub; or ``sentence-transformers:NAME`` for any model that library loads.
        threads: CPU threads for one call; by default two, or one on a single-core machine.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded or run.
        MissingExtraError: the spec needs an optional dependency that is not installed.
    """
    if is_sentence_transformers(spec):
        from .sentence_transformers import SentenceTransformersEncoder

        return SentenceTransformersEncoder(spec.partition(":")[2], threads=threads)
    from .onnx_encoder import OnnxEncoder

    return OnnxEncoder(locate(DEFAULT_ENCODER if spec == "bundled" else spec), threads=threads)
