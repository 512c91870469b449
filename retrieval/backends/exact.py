"""Exact nearest neighbours by inner product."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Self

import numpy as np
import simsimd
from numpy.typing import NDArray

from ..query import Ranking

# Upper bound of the rounding error of a float32 inner product of unit vectors, any summation order:
# dim * 2^-24 in the worst case, for up to 1,600 dimensions.
_ROUNDING_ERROR = 1e-4


class ExactIndex:
    """Every vector is compared, so the result is exact for any number of rows and any mask.

    First all rows are scored by int8 codes, which take a quarter of the memory of float32. The
    error of such a score is at most the rounding errors of the row and of the query together. Rows
    more than twice that bound below the `depth`-th best approximate score cannot be in the result.
    All others are scored again in float32.

    Args:
        vectors: L2-normalised vectors, shape (n, dim), by row.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors
        self._codes, self._steps, self._error = _quantise(vectors)

    @classmethod
    def build(cls, vectors: NDArray[np.float32]) -> Self:
        """Index L2-normalised vectors, shape (n, dim)."""
        return cls(vectors)

    @classmethod
    def load(cls, folder: Path, vectors: NDArray[np.float32]) -> Self:  # noqa: ARG003
        """Index the saved vectors; nothing else is kept on disk."""
        return cls(vectors)

    def save(self, folder: Path) -> None:
        """Nothing to write: the vectors are saved by the store."""

    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """The `depth` rows inside the mask with the largest inner product."""
        if depth < 1 or not len(self.vectors):
            return Ranking.empty()
        if allowed is not None:
            rows = np.flatnonzero(allowed)
            if len(rows) * 4 < len(self.vectors):
                return Ranking.best(rows, self._score(rows, vector), depth)
        rows = self._candidates(vector, depth, allowed)
        return Ranking.best(rows, self._score(rows, vector), depth)

    def _score(self, rows: NDArray[np.int64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        # Row by row: a matrix product may round equal rows differently, and ties must be ties.
        scores: NDArray[np.float32] = np.einsum("ij,j->i", self.vectors[rows], vector)
        return scores

    def _candidates(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        peak = float(np.abs(vector).max()) or 1.0
        code = np.round(vector * (127 / peak)).astype(np.int8)
        errors = vector - code * (peak / 127)
        query_error = math.sqrt(float(errors @ errors))
        products = np.asarray(simsimd.cdist(code[None], self._codes, metric="inner"))[0]
        approximate = products * (self._steps * (peak / 127))
        if allowed is not None:
            approximate[~allowed] = -np.inf
        # A dequantised row is at most 1 + |e| long; float32 sums differ in their last bits.
        bound = self._error + (1 + self._error) * query_error + _ROUNDING_ERROR
        rows = _at_least(approximate, depth, slack=2 * bound)
        return rows if allowed is None else rows[allowed[rows]]


def _quantise(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.int8], NDArray[np.float32], float]:
    """Codes, the step of each row, and a bound of the L2 errors of the rows."""
    codes = np.empty(vectors.shape, np.int8)
    steps = np.empty(len(vectors), np.float32)
    error = 0.0
    for start in range(0, len(vectors), 4_096):
        rows = slice(start, start + 4_096)
        block = vectors[rows]
        steps[rows] = np.maximum(np.abs(block).max(axis=1) / 127, np.finfo(np.float32).tiny)
        rounded = np.round(block / steps[rows, None])
        codes[rows] = rounded
        errors = np.linalg.norm(block - rounded * steps[rows, None], axis=1)
        error = max(error, float(errors.max(initial=0.0)))
    return codes, steps, error


def _at_least(scores: NDArray[np.floating], depth: int, slack: float) -> NDArray[np.int64]:
    """Rows scoring within `slack` of the `depth`-th best."""
    if depth >= len(scores):
        return np.arange(len(scores))
    cut = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    return np.flatnonzero(scores >= cut - slack)
