"""How a name becomes an encoder."""

from __future__ import annotations

from .encoder import Encoder
from .hub import is_sentence_transformers, locate

DEFAULT_ENCODER = "shortlist-embed"
"""The bundled encoder that ``bundled`` means."""


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
