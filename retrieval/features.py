"""A reranker without a model: a weighted sum of measurements of a candidate.

It takes about a millisecond. Its seven weights can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.document import LEXICAL_FIELDS
from ..models import TokenTable, TokenVectors
from ..text import terms
from .arguments import Slots, Values
from .protocols import LexicalIndex
from .run import Run

#: What is measured and what a unit of it weighs; chosen on a development set of requests to real
#: servers. `dense`: cosine of request and tool. `late`: the same token by token.
#: `lexical`: BM25. `coverage`: share of the request's IDF mass that occurs in the tool. `server`:
#: share of the server's terms that occur in the request. `left_over`: share of the request's values
#: that find no parameter. `missing`: share of the required numbers that the request does not give.
WEIGHTS: Mapping[str, float] = {
    "dense": 1.0,
    "late": 0.4,
    "lexical": 0.007,
    "coverage": 0.03,
    "server": 0.1,
    "left_over": -0.05,
    "missing": -0.08,
}
_CACHED_TOOLS = 16_384


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read off a tool once: its terms, those of its server, what its parameters take."""

    terms: frozenset[str]
    server: frozenset[str]
    slots: Slots


class FeatureScorer:
    """Scores candidates of one index by `WEIGHTS`.

    Args:
        tools: tools in order of row.
        vectors: vectors of the tools, shape (n, dim); None without a dense stage.
        tokens: token vectors of the tools; None if the encoder has none.
        lexical: gives the weight of a term, or None where no lexical stage runs.
        read: reads a tool; a `reader` shared by the versions of an index, or one's own when absent.
    """

    watches_deadline = True
    """Stops at the deadline by itself: the first reading of a tool takes about a millisecond."""

    def __init__(
        self,
        tools: Sequence[Tool],
        vectors: NDArray[np.float32] | None,
        tokens: TokenVectors | TokenTable | None,
        lexical: LexicalIndex | None,
        read: Callable[[Tool], Reading] | None = None,
    ) -> None:
        self._tools = tools
        self._vectors = vectors
        self._tokens = tokens
        self._lexical = lexical
        self._read = reader() if read is None else read

    def score(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The weighted sum of each row's measurements, shape (n,)."""
        measured: dict[str, NDArray[Any]] = {
            "dense": self._cosines(run, rows),
            "late": self._late(run, rows),
            "lexical": _scores_in(run, "lexical", rows),
            **self._matches(run, rows),
        }
        total = np.zeros(len(rows))
        for name, values in measured.items():
            total += WEIGHTS[name] * values
        return total.astype(np.float32)

    def _cosines(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._vectors is None or run.query.vector is None:
            return np.zeros(len(rows), np.float32)
        cosines: NDArray[np.float32] = np.einsum("ij,j->i", self._vectors[rows], run.query.vector)
        return cosines

    def _late(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._tokens is None or run.query.tokens is None:
            return np.zeros(len(rows), np.float32)
        tokens = self._tokens.take(rows)
        # Beside a tool that the encoder has not read yet, no tool gets what it could not have.
        if tokens.has_blank():
            return np.zeros(len(rows), np.float32)
        return late_interaction(run.query.tokens, tokens)

    def _matches(self, run: Run, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        asked = dict.fromkeys(terms(run.query.text))
        weights = {term: self._lexical.weight(term) if self._lexical else 1.0 for term in asked}
        total = sum(weights.values()) or 1.0
        values = Values.of(run.query.text)
        found = {
            name: np.zeros(len(rows)) for name in ("coverage", "server", "left_over", "missing")
        }
        for place, row in enumerate(rows.tolist()):
            # What was read is remembered, so that the next request gets further.
            run.check_deadline()
            tool = self._read(self._tools[row])
            mass = sum(weight for term, weight in weights.items() if term in tool.terms)
            named = sum(term in weights for term in tool.server)
            found["coverage"][place] = mass / total
            found["server"][place] = named / (len(tool.server) or 1)
            found["left_over"][place] = tool.slots.left_over(values)
            found["missing"][place] = tool.slots.missing(values)
        return found


def reader() -> Callable[[Tool], Reading]:
    """A function that reads a tool and remembers what it read of the last 16,384 tools."""
    return lru_cache(_CACHED_TOOLS)(_reading)


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


def _reading(tool: Tool) -> Reading:
    return Reading(
        frozenset(terms(LEXICAL_FIELDS["all"](tool))),
        frozenset(terms(tool.server or "")),
        Slots.of(tool),
    )


def _scores_in(run: Run, stage: str, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Scores a retriever gave the rows, 0 where it did not list them."""
    ranking = run.rankings.get(stage)
    if ranking is None:
        return np.zeros(len(rows), np.float32)
    scores = dict(zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True))
    return np.array([scores.get(row, 0.0) for row in rows.tolist()], np.float32)
