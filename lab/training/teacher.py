"""Vectors of the bundled encoder for training texts, saved so that each is computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from ...models.model_protocols import Encoder

#: Number of texts in a saved file.
_PART = 2048


def teacher_vectors(
    encoder: Encoder, texts: Sequence[str], folder: Path, *, query: bool
) -> NDArray[np.float32]:
    """Unit vectors of texts, shape (n, dim); parts computed earlier are read from the folder.

    Args:
        encoder: the teacher.
        texts: what to encode.
        folder: folder of the saved vectors, 2,048 texts per file. An interrupted run continues
            there.
        query: whether the texts are queries.
    """
    parts = []
    what = "teacher: requests" if query else "teacher: tools"
    for start in track(range(0, len(texts), _PART), description=what):
        part = texts[start : start + _PART]
        path = folder / f"{_key(encoder, part, query=query)}.npy"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".part.npy")
            np.save(unfinished, encoder.encode(part, query=query).astype(np.float16))
            unfinished.replace(path)
        parts.append(np.load(path).astype(np.float32))
    vectors = np.concatenate(parts)
    units: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def _key(encoder: Encoder, texts: Sequence[str], *, query: bool) -> str:
    digest = hashlib.blake2b(f"{encoder.fingerprint} {query}".encode(), digest_size=12)
    for text in texts:
        digest.update(text.encode(errors="replace") + b"\0")
    return digest.hexdigest()
