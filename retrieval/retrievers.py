"""The two built-in stages that find candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, RequestError
from ..models import Encoder
from .guard import Guard
from .protocols import DenseIndex, LexicalIndex
from .query import Query, Ranking
from .run import BudgetExceeded


class LexicalRetriever:
    """Tools that share terms with the request.

    Args:
        index: the documents of the catalog version.
    """

    def __init__(self, index: LexicalIndex) -> None:
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
        encoder: encodes requests with the model of the tools' vectors.
        index: the vectors of the catalog version.
        guard: guard of the encoder; a new one by default.
        waits_for: number of tools whose vectors cannot be compared yet.
    """

    def __init__(
        self,
        encoder: Encoder,
        index: DenseIndex,
        *,
        guard: Guard | None = None,
        waits_for: int = 0,
    ) -> None:
        self.encoder = encoder
        self.index = index
        self._guard = guard or Guard()
        self._waits_for = waits_for

    def check(self) -> None:
        """Return at once if a request can be encoded now.

        Raises:
            ModelError: the encoder is not loaded yet, or has tools to read first.
        """
        if self._waits_for:
            raise ModelError(f"encoder: has {self._waits_for:,} tools to read first")
        # One that is loaded in the background says why it is not there.
        missing = getattr(self.encoder, "missing", None)
        if missing is not None and (why := missing()) is not None:
            raise ModelError(f"encoder: {why}")

    def prepare(self, query: Query) -> Query:
        """The query with its vector."""
        if query.vector is not None:
            return query
        self.check()

        def encode() -> NDArray[np.float32]:
            return self.encoder.encode([query.text], query=True)

        # The first call is slow in every encoder. Later ones of an encoder that runs in this
        # process are so quick and even that a thread for each would only cost.
        quick = self._guard.succeeded and getattr(self.encoder, "in_process", False)
        try:
            vectors = self._guard.call(encode, None if quick else query.due)
        except BudgetExceeded as error:
            raise BudgetExceeded(f"encoder: {error}") from error
        return replace(query, vector=vectors[0])

    def search(self, query: Query, depth: int) -> Ranking:
        """Nearest tools by inner product."""
        vector = self.prepare(query).vector
        if vector is None:
            raise RequestError("the encoder gave no vector for the request")
        return self.index.search(vector, depth, query.allowed)
