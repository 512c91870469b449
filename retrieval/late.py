"""Late interaction: a request and candidates compared token by token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..models import TokenVectors


def late_interaction(query: TokenVectors, documents: TokenVectors) -> NDArray[np.float32]:
    """How well each document matches a query, from -1 to 1, shape (documents,).

    The mean of both directions: each token of the one text finds its best in the other, and they
    add up by their weights. MaxSim of Khattab and Zaharia, "ColBERT", SIGIR 2020, which looks from
    the query's side only and weighs all tokens alike.

    Args:
        query: tokens of one text.
        documents: tokens of the candidates, each of which has at least one.
    """
    if not len(documents):
        return np.zeros(0, np.float32)
    cosines = documents.units() @ query.units().T
    starts = documents.starts[:-1]
    asked = np.maximum.reduceat(cosines, starts, axis=0) @ query.weights
    offered = np.add.reduceat(cosines.max(axis=1) * documents.weights, starts)
    return ((asked + offered) / 2).astype(np.float32)
