"""Encoders, rerankers and token counting. Nothing heavy is imported before a model is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .loading import DEFAULT_ENCODER, load_encoder, load_reranker
    from .model_protocols import Encoder, Reranker
    from .picking_reranker import PickingReranker
    from .static_encoder import StaticEncoder
    from .token_counter import TokenCounter

_LOADING = ("DEFAULT_ENCODER", "load_encoder", "load_reranker")
_MODULE_OF_NAME = {
    **dict.fromkeys(_LOADING, ".loading"),
    "Encoder": ".model_protocols",
    "PickingReranker": ".picking_reranker",
    "Reranker": ".model_protocols",
    "StaticEncoder": ".static_encoder",
    "TokenCounter": ".token_counter",
}
__all__ = [
    "DEFAULT_ENCODER",
    "Encoder",
    "PickingReranker",
    "Reranker",
    "StaticEncoder",
    "TokenCounter",
    "load_encoder",
    "load_reranker",
]

__getattr__, __dir__ = lazy_names(__name__, _MODULE_OF_NAME, __all__)
