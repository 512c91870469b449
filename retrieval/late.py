"""Late interaction: a request and candidates compared token by token."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..models import TokenVectors


def late_interaction(query: TokenVectors, documents: TokenVectors) -> NDArray[np.float32]:
    """How well each document holds what a query asks for, from -1 to 1, shape (documents,).

    Each token of the query finds its best in the document, and they add up by their weights: MaxSim
    of Khattab and Zaharia, "ColBERT", SIGIR 2020, where all tokens weigh alike.

    Args:
        query: tokens of one text.
        documents: tokens of the candidates, each of which has at least one.
    """
    if not len(documents):
        return np.zeros(0, np.float32)
    cosines = documents.units() @ query.units().T
    best = np.maximum.reduceat(cosines, documents.starts[:-1], axis=0)
    return (best @ query.weights).astype(np.float32)
