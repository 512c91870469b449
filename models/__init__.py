"""Encoders, rerankers and token counting. Nothing heavy is imported before a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .encoder import Encoder
    from .loading import DEFAULT_ENCODER, load_encoder, load_reranker
    from .reranker import Reranker
    from .static import StaticEncoder
    from .token_vectors import TokenEncoder, TokenTable, TokenVectors, encoded, gives_tokens
    from .tokens import TokenCounter

_TOKENS = ("TokenEncoder", "TokenTable", "TokenVectors", "encoded", "gives_tokens")
_LOADING = ("DEFAULT_ENCODER", "load_encoder", "load_reranker")
_HOMES = {
    **dict.fromkeys(_TOKENS, ".token_vectors"),
    **dict.fromkeys(_LOADING, ".loading"),
    "Encoder": ".encoder",
    "Reranker": ".reranker",
    "StaticEncoder": ".static",
    "TokenCounter": ".tokens",
}
__all__ = [
    "DEFAULT_ENCODER",
    "Encoder",
    "Reranker",
    "StaticEncoder",
    "TokenCounter",
    "TokenEncoder",
    "TokenTable",
    "TokenVectors",
    "encoded",
    "gives_tokens",
    "load_encoder",
    "load_reranker",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
