"""A reranker that reads no text: a weighted sum of what can be measured of a candidate.

It costs about a millisecond, needs no model of its own, and can be read: five numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..models import TokenVectors
from .analysis import terms
from .document import LEXICAL_FIELDS
from .late import late_interaction
from .protocols import LexicalIndex
from .run import Run

#: What is measured and what a unit of it weighs; chosen on a development set of requests to real
#: servers. `dense`: cosine of request and tool. `late`: the same token by token.
#: `lexical`: BM25. `coverage`: share of the request's IDF mass that occurs in the tool. `server`:
#: share of the server's terms that occur in the request.
WEIGHTS: Mapping[str, float] = {
    "dense": 1.0,
    "late": 0.5,
    "lexical": 0.007,
    "coverage": 0.03,
    "server": 0.1,
}
_CACHED_TOOLS = 16_384


@dataclass(frozen=True, slots=True)
class _ToolTerms:
    everything: frozenset[str]
    server: frozenset[str]


class FeatureScorer:
    """Scores candidates of one index by `WEIGHTS`.

    Args:
        tools: in order of row.
        vectors: of the tools, shape (n, dim), or None where no dense stage runs.
        tokens: of the tools, or None where the encoder gives none.
        lexical: gives the weight of a term, or None where no lexical stage runs.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        vectors: NDArray[np.float32] | None,
        tokens: TokenVectors | None,
        lexical: LexicalIndex | None,
    ) -> None:
        self._tools = tools
        self._vectors = vectors
        self._tokens = tokens
        self._lexical = lexical
        self._terms = lru_cache(_CACHED_TOOLS)(self._terms_of)

    def score(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The weighted sum of each row's measurements, shape (n,)."""
        coverage, server = self._matches(run, rows)
        total: NDArray[np.float64] = (
            WEIGHTS["dense"] * self._cosines(run, rows)
            + WEIGHTS["late"] * self._late(run, rows)
            + WEIGHTS["lexical"] * _scores_in(run, "lexical", rows)
            + WEIGHTS["coverage"] * coverage
            + WEIGHTS["server"] * server
        )
        return total.astype(np.float32)

    def _cosines(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._vectors is None or run.query.vector is None:
            return np.zeros(len(rows), np.float32)
        cosines: NDArray[np.float32] = np.einsum("ij,j->i", self._vectors[rows], run.query.vector)
        return cosines

    def _late(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._tokens is None or run.query.tokens is None:
            return np.zeros(len(rows), np.float32)
        return late_interaction(run.query.tokens, self._tokens.take(rows))

    def _matches(
        self, run: Run, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        asked = dict.fromkeys(terms(run.query.text))
        weights = {term: self._lexical.weight(term) if self._lexical else 1.0 for term in asked}
        total = sum(weights.values()) or 1.0
        coverage, server = np.zeros(len(rows)), np.zeros(len(rows))
        for place, row in enumerate(rows.tolist()):
            tool = self._terms(row)
            found = sum(weight for term, weight in weights.items() if term in tool.everything)
            coverage[place] = found / total
            server[place] = sum(term in weights for term in tool.server) / (len(tool.server) or 1)
        return coverage, server

    def _terms_of(self, row: int) -> _ToolTerms:
        tool = self._tools[row]
        return _ToolTerms(
            frozenset(terms(LEXICAL_FIELDS["all"](tool))), frozenset(terms(tool.server or ""))
        )


def _scores_in(run: Run, stage: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Scores a retriever gave the rows, 0 where it did not list them."""
    ranking = run.rankings.get(stage)
    if ranking is None:
        return np.zeros(len(rows), np.float32)
    scores = dict(zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True))
    return np.array([scores.get(row, 0.0) for row in rows.tolist()], np.float32)
