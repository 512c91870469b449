"""The stage that compares static vectors: a query's vector is read from a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...models import Encoder
from ..backends.exact import ExactIndex
from ..backends.protocols import DenseSearch
from ..query import Query, Ranking


@dataclass(frozen=True, slots=True, eq=False)
class StaticRetriever:
    """Tools whose meaning is near the request's, without running a model.

    Args:
        encoder: encodes requests.
        index: searches the vectors of the tools in its space.
    """

    encoder: Encoder
    index: DenseSearch

    @classmethod
    def of(cls, encoder: Encoder, values: NDArray[np.float32]) -> Self:
        """The stage over unit vectors of the tools, shape (n, dim), by row."""
        return cls(encoder, ExactIndex.build(values))

    def prepare(self, query: Query) -> Query:
        """The query as it is: its vector takes no time worth telling apart."""
        return query

    def search(self, query: Query, depth: int) -> Ranking:
        """Nearest tools by inner product."""
        vector = self.encoder.encode([query.text], query=True)[0]
        return self.index.search(vector, depth, query.allowed)
