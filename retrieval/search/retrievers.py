"""The two built-in stages that find candidates."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...errors import RequestError
from ...models import Encoder
from ..backends.protocols import DenseSearch, LexicalSearch
from ..query import Query, Ranking
from .query_run import BudgetExceeded
from .stage_guard import Guard


class LexicalRetriever:
    """Tools that share terms with the request.

    Args:
        index: the documents of the catalog version.
    """

    def __init__(self, index: LexicalSearch) -> None:
        self.index = index

    def prepare(self, query: Query) -> Query:
        """The query as it is: its text is all this stage reads."""
        return query

    def search(self, query: Query, depth: int) -> Ranking:
        """Best tools by their terms."""
        return self.index.search(query.text, depth, query.allowed)


class DenseRetriever:
    """Finds tools by vectors of a bi-encoder.

    Args:
        encoder: encodes queries with the model of the tools' vectors.
        index: the vectors of the catalog version.
        guard: guard of the encoder; a new one by default.
    """

    def __init__(self, encoder: Encoder, index: DenseSearch, *, guard: Guard | None = None) -> None:
        self.encoder = encoder
        self.index = index
        self._guard = guard or Guard()

    def prepare(self, query: Query) -> Query:
        """The query with its vector."""
        if query.vector is not None:
            return query
        requested = began = perf_counter()

        def encode() -> NDArray[np.float32]:
            nonlocal began
            began = perf_counter()
            return self.encoder.encode([query.text], query=True)

        # The first call of every encoder is slow. Later calls of an encoder in this process take
        # little and nearly the same time, so they need no thread that a deadline can abandon.
        quick = self._guard.has_succeeded and getattr(self.encoder, "in_process", False)
        try:
            vectors = self._guard.call(encode, None if quick else query.deadline)
        except BudgetExceeded as error:
            raise type(error)(f"encoder: {error}") from error
        return replace(query, vector=vectors[0], queued_ms=(began - requested) * 1e3)

    def search(self, query: Query, depth: int) -> Ranking:
        """Nearest tools by inner product."""
        vector = self.prepare(query).vector
        if vector is None:
            raise RequestError("the encoder gave no vector for the request")
        return self.index.search(vector, depth, query.allowed)
