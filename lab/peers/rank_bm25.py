"""rank-bm25: the plain Python Okapi BM25 that many tool searches are built on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .libraries import library
from .words import split_words, tool_text

if TYPE_CHECKING:
    from ...catalog import Tool


class RankBm25:
    """`BM25Okapi` with its default constants over the words of each tool."""

    name = "rank-bm25"
    depth_free = True

    def __init__(self) -> None:
        self._library = library("rank_bm25", self.name)

    def index(self, tools: Sequence[Tool]) -> None:
        """Tokenise and count."""
        self._ids = [tool.id for tool in tools]
        self._okapi = self._library.BM25Okapi([tool_text(tool).split() for tool in tools])

    def search(self, query: str, k: int) -> list[str]:
        """Rank by score, leaving out tools that share no word with the query."""
        scores = self._okapi.get_scores(split_words(query).split())
        best = np.argsort(-scores, kind="stable")[:k]
        return [self._ids[i] for i in best if scores[i] != 0]
