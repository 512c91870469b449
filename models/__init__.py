"""Encoders, rerankers and token counting. Nothing heavy is imported before a model is loaded."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoder import DEFAULT_ENCODER, Encoder, load_encoder
    from .reranker import Reranker, load_reranker
    from .token_vectors import TokenEncoder, TokenVectors, encoded, gives_tokens
    from .tokens import TokenCounter

_HOMES = {
    "DEFAULT_ENCODER": ".encoder",
    "Encoder": ".encoder",
    "Reranker": ".reranker",
    "TokenCounter": ".tokens",
    "TokenEncoder": ".token_vectors",
    "TokenVectors": ".token_vectors",
    "encoded": ".token_vectors",
    "gives_tokens": ".token_vectors",
    "load_encoder": ".encoder",
    "load_reranker": ".reranker",
}

__all__ = [
    "DEFAULT_ENCODER",
    "Encoder",
    "Reranker",
    "TokenCounter",
    "TokenEncoder",
    "TokenVectors",
    "encoded",
    "gives_tokens",
    "load_encoder",
    "load_reranker",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
