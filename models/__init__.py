"""Encoders, rerankers and token counting. Nothing heavy is imported before a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import public

if TYPE_CHECKING:
    from .encoder import Encoder
    from .loading import DEFAULT_ENCODER, load_encoder, load_reranker
    from .reranker import Reranker
    from .static import StaticEncoder
    from .tokens import TokenCounter

_LOADING = ("DEFAULT_ENCODER", "load_encoder", "load_reranker")
_HOMES = {
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
    "load_encoder",
    "load_reranker",
]

__getattr__, __dir__ = public(__name__, _HOMES, __all__)
