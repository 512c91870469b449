"""bm25s: BM25 with scores computed at indexing time, English stop words and stemming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .libraries import library
from .words import split_words, tool_text

if TYPE_CHECKING:
    from ...catalog import Tool


class Bm25s:
    """`bm25s.BM25` as its documentation sets it up, over the words of each tool."""

    name = "bm25s"
    depth_free = True

    def __init__(self) -> None:
        self._library = library("bm25s", self.name)
        self._stemmer = library("Stemmer", self.name).Stemmer("english")

    def index(self, tools: Sequence[Tool]) -> None:
        """Tokenise, stem and score."""
        self._ids = [tool.id for tool in tools]
        self._bm25 = self._library.BM25()
        self._bm25.index(self._tokens([tool_text(tool) for tool in tools]), show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        return self._library.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, show_progress=False
        )

    def search(self, query: str, k: int) -> list[str]:
        """Rank by score, leaving out tools that share no word with the query."""
        ranks, scores = self._bm25.retrieve(
            self._tokens([split_words(query)]),
            k=min(k, len(self._ids)),
            show_progress=False,
        )
        return [self._ids[i] for i, s in zip(ranks[0], scores[0], strict=True) if s > 0]
