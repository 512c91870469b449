"""Vectors of texts that the encoder has not read yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..models import StaticEncoder

_MARK = 8
"""Bytes 0 that a static key begins with."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """Static vectors for texts that are not encoded yet.

    Static vectors are in the vector space of one encoder, the teacher, and can be compared with its
    vectors. If half of the tools are encoded, each half gives half of the first hits (ADR 22). For
    any other encoder the vectors are zeros, which mark tools that cannot be compared.

    Args:
        static: the tables; None if the encoder is not their teacher.
        dim: length of the encoder's vectors.
    """

    static: StaticEncoder | None
    dim: int

    def encoded(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Vectors of texts, shape (n, dim).

        Args:
            texts: definitions, or queries.
            query: whether the texts are queries.
        """
        if self.static is not None and texts:
            return self.static.lifted(texts, query=query)
        return np.zeros((len(texts), self.dim), np.float32)


def static_key(key: bytes) -> bytes:
    """The key of a row whose text the encoder has not read yet.

    Args:
        key: hash of the text, 16 bytes.
    """
    return bytes(_MARK) + key[:-_MARK]


def is_static(keys: Sequence[bytes]) -> NDArray[np.int64]:
    """Places of the keys that `static_key` made, ascending.

    Args:
        keys: keys of 16 bytes each.
    """
    marks = np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2)[:, 0]
    return np.flatnonzero(marks == 0)
