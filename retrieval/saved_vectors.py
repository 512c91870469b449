"""The vectors of a saved index: three kinds of files, mapped from disk when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..models import TokenTable, TokenVectors
from .vectors import Vectors

_TOKEN_ARRAYS = ("vectors", "weights", "starts")


def write_vectors(version: Path, vectors: Vectors) -> None:
    """Write vectors into the folder of a version.

    Raises:
        OSError: the disk refuses.
    """
    np.save(version / "vectors.npy", vectors.values)
    keys = np.frombuffer(b"".join(vectors.keys), np.uint8).reshape(-1, 16)
    np.save(version / "keys.npy", keys)
    if vectors.tokens is not None:
        tokens = TokenTable.of(vectors.tokens).whole()
        (version / "tokens").mkdir()
        for name in _TOKEN_ARRAYS:
            np.save(version / "tokens" / f"{name}.npy", getattr(tokens, name))


def read_vectors(version: Path, model: str) -> Vectors:
    """The vectors in the folder of a version.

    Args:
        version: the folder.
        model: fingerprint of the encoder that made them.

    Raises:
        ValueError: the files do not belong together.
        OSError: a file is missing.
    """
    values = np.load(version / "vectors.npy", mmap_mode="r")
    keys = np.load(version / "keys.npy")
    tokens = _tokens(version / "tokens", len(values))
    return Vectors(values, tuple(key.tobytes() for key in keys), model, tokens)


def _tokens(folder: Path, rows: int) -> TokenVectors | None:
    if not folder.is_dir():
        return None
    vectors, weights, starts = (
        np.load(folder / f"{name}.npy", mmap_mode="r") for name in _TOKEN_ARRAYS
    )
    if not (
        (starts.shape, starts.dtype) == ((rows + 1,), np.int64)
        and starts[0] == 0
        and (np.diff(starts) > 0).all()
        and (vectors.ndim, vectors.dtype) == (2, np.int8)
        and weights.shape == (len(vectors),) == (starts[-1],)
    ):
        raise ValueError("tokens: vectors, weights and starts do not belong together")
    return TokenVectors(vectors, weights, np.asarray(starts))
