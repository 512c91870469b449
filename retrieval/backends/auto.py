"""The dense index that suits the size of the catalog."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .exact import ExactIndex
from .protocols import DenseIndex

#: Rows up to which the exact scan answers in a few milliseconds and needs no building.
EXACT_ROWS = 100_000


class AutoIndex:
    """Exact search up to `EXACT_ROWS` vectors; beyond, hnswlib where it is installed."""

    @classmethod
    def build(cls, vectors: NDArray[np.float32]) -> DenseIndex:
        """Index L2-normalised vectors, shape (n, dim)."""
        return cls.index_class_for(len(vectors)).build(vectors)

    @classmethod
    def load(cls, folder: Path, vectors: NDArray[np.float32]) -> DenseIndex:
        """Open what `build` chose when it was saved; the exact index leaves no file."""
        if any(folder.iterdir()):
            from .hnsw import HnswIndex

            return HnswIndex.load(folder, vectors)
        return ExactIndex.load(folder, vectors)

    @staticmethod
    def index_class_for(rows: int) -> type[DenseIndex]:
        """The backend for so many rows."""
        if rows > EXACT_ROWS and find_spec("hnswlib"):
            from .hnsw import HnswIndex

            return HnswIndex
        return ExactIndex
