"""Vectors for synthetic tools without an encoder, for a faster bench."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

NOISE = 0.5
"""Length of what is added to a unit vector; the cosine to the original is then about 0.9."""
_AT_ONCE = 1024


class PerturbedEncoder:
    """A substitute for an encoder: every text gets a real vector with noise, L2-normalised.

    Args:
        vectors: vectors of real tools, shape (n, dim).
        fingerprint: fingerprint of the encoder they came from.
        seed: random seed of the draw and of the noise.
    """

    name = "perturbed"

    def __init__(
        self,
        vectors: NDArray[np.float32],
        fingerprint: str,
        *,
        seed: int = 0,
    ) -> None:
        self._vectors = vectors
        self._generator = np.random.default_rng(seed)
        self.fingerprint = fingerprint
        self.dim: int = vectors.shape[1]

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,  # noqa: ARG002 - the protocol's
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """A vector for each text, independent of the text."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        # Some at a time, so that nothing stands beside the result that a real encoder would not
        # have there either.
        for start in range(0, len(texts), _AT_ONCE):
            part = vectors[start : start + _AT_ONCE]
            noise = self._generator.standard_normal(part.shape, np.float32)
            rows = self._generator.integers(0, len(self._vectors), len(part))
            np.add(self._vectors[rows], noise * np.float32(NOISE / np.sqrt(self.dim)), out=part)
            part /= np.linalg.norm(part, axis=1, keepdims=True)
        if progress is not None:
            progress(len(texts))
        return vectors
