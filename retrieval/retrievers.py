"""The two built-in stages that find candidates."""

from __future__ import annotations

from dataclasses import replace

from ..errors import RequestError
from ..models import Encoder, encoded
from .protocols import DenseIndex, LexicalIndex
from .query import Query, Ranking


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
    """Tools whose meaning is near the request's, by a bi-encoder.

    Args:
        encoder: encodes requests with the model the vectors came from.
        index: the vectors of the catalog version.
        tokens: whether the index has those of its tools.
    """

    def __init__(self, encoder: Encoder, index: DenseIndex, *, tokens: bool = False) -> None:
        self.encoder = encoder
        self.index = index
        self._tokens = tokens

    def prepare(self, query: Query) -> Query:
        """The query with its vector, and those of its tokens where they are wanted."""
        if query.vector is not None:
            return query
        wanted = self._tokens and query.with_tokens
        vectors, tokens = encoded(self.encoder, [query.text], query=True, tokens=wanted)
        return replace(query, vector=vectors[0], tokens=tokens)

    def search(self, query: Query, depth: int) -> Ranking:
        """Nearest tools by inner product."""
        vector = self.prepare(query).vector
        if vector is None:
            raise RequestError("the encoder gave no vector for the request")
        return self.index.search(vector, depth, query.allowed)
