"""Encoders and rerankers made of a user's functions; see `Encoder.of` and `Reranker.of`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, ModelError

Embed: TypeAlias = Callable[[list[str]], Any]
"""Embeds texts: returns one vector for each, as an array or as lists of numbers."""
Score: TypeAlias = Callable[[str, list[str]], Any]
"""Scores texts against a query: returns one number for each, higher is better."""

_BATCH = 64
"""Texts that are embedded at once."""


class FunctionEncoder:
    """An encoder that calls a function.

    Args:
        embed: embeds texts.
        dim: length of a vector.
        name: names the model and its version.
        embed_query: embeds queries; `embed` when absent.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self, embed: Embed, *, dim: int, name: str, embed_query: Embed | None = None
    ) -> None:
        for role, function in (("embed", embed), ("embed_query", embed_query or embed)):
            if not callable(function):
                raise ConfigError(f"{role}: a function, not {type(function).__name__}")
        if not isinstance(dim, int) or dim < 1:
            raise ConfigError(f"dim: the length of a vector, from 1, not {dim!r:.80}")
        self.name = _checked_name(name)
        self.dim = dim
        self.fingerprint = _fingerprint("encoder", name, dim)
        self._embed = embed
        self._embed_query = embed_query or embed

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`.

        Raises:
            ModelError: the function fails, or does not return a vector of length `dim` for each
                text.
        """
        vectors = np.empty((len(texts), self.dim), np.float32)
        function = self._embed_query if query else self._embed
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            rows = _numbers(function, batch, name=f"encoder {self.name!r}")
            if rows.shape != (len(batch), self.dim):
                raise ModelError(
                    f"encoder {self.name!r}: returned an array of shape {rows.shape} for "
                    f"{len(batch)} texts, not {(len(batch), self.dim)}"
                )
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            vectors[start : start + len(batch)] = rows / np.maximum(lengths, 1e-12)
            if progress is not None:
                progress(len(batch))
        return vectors

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, dim={self.dim})"


class FunctionReranker:
    """A reranker that calls a function.

    Args:
        score: scores texts against a query.
        name: names the model and its version.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(self, score: Score, *, name: str) -> None:
        if not callable(score):
            raise ConfigError(f"score: a function, not {type(score).__name__}")
        self.name = _checked_name(name)
        self.fingerprint = _fingerprint("reranker", name)
        self._score = score

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query; see `Reranker.score`.

        Raises:
            ModelError: the function fails, or does not return numbers.
        """
        return _numbers(self._score, query, list(texts), name=f"reranker {self.name!r}")

    def __repr__(self) -> str:
        return f"Reranker({self.name!r})"


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"name: a text that names the model and its version, not {name!r:.80}")
    return name


def _fingerprint(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _numbers(function: Any, *given: object, name: str) -> NDArray[np.float32]:
    """What a function returns for these arguments, as numbers.

    Raises:
        ModelError: it fails, or returns something else.
    """
    try:
        value = function(*given)
        if isinstance(value, Iterable) and not hasattr(value, "__array__"):
            value = list(value)
        return np.asarray(value, np.float32)
    except Exception as error:
        raise ModelError(f"{name} failed: {type(error).__name__}: {error!s:.300}") from error
