"""The vectors of a saved index: two files; the vectors are mapped from disk when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .vectors import Vectors


def write_vectors(version: Path, vectors: Vectors) -> None:
    """Write vectors into the folder of a version.

    Raises:
        OSError: the disk refuses.
    """
    np.save(version / "vectors.npy", vectors.values)
    keys = np.frombuffer(b"".join(vectors.keys), np.uint8).reshape(-1, 16)
    np.save(version / "keys.npy", keys)


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
    return Vectors(values, tuple(key.tobytes() for key in keys), model)
