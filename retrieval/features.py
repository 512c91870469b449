"""A reranker that reads no text: a small network over what the stages measured.

It costs well under a millisecond, needs no model of language and can be read: `FEATURES` are its
inputs, one row a candidate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..errors import ModelError
from .analysis import terms
from .document import LEXICAL_FIELDS
from .protocols import LexicalIndex
from .query import Ranking
from .run import Run

#: What is measured of a candidate, in the order of the columns.
FEATURES = (
    "dense",  # cosine of request and tool
    "dense_gap",  # to the best candidate
    "lexical",  # BM25
    "lexical_share",  # of the best candidate's
    "both",  # reciprocal-rank sum of the two retrievers, k = 60
    "coverage",  # share of the request's IDF mass that occurs in the tool
    "name_coverage",  # share of the request's IDF mass that occurs in the name
    "name_found",  # share of the name's terms that occur in the request
    "server_found",  # share of the server's terms that occur in the request
    "length",  # log of 1 + the request's distinct terms
)
_CACHED_TOOLS = 16_384


@dataclass(frozen=True, slots=True)
class _ToolTerms:
    everything: frozenset[str]
    name: frozenset[str]
    server: frozenset[str]


class FeatureExtractor:
    """Measures candidates of one index.

    Args:
        tools: in order of row.
        vectors: of the tools, shape (n, dim), or None where no dense stage runs.
        lexical: gives the weight of a term, or None where no lexical stage runs.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        vectors: NDArray[np.float32] | None,
        lexical: LexicalIndex | None,
    ) -> None:
        self._tools = tools
        self._vectors = vectors
        self._lexical = lexical
        self._terms = lru_cache(_CACHED_TOOLS)(self._terms_of)

    def __call__(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features of the rows for the request of a run, shape (n, len(FEATURES))."""
        dense = np.zeros(len(rows), np.float32)
        if self._vectors is not None and run.query.vector is not None:
            dense = np.einsum("ij,j->i", self._vectors[rows], run.query.vector)
        lexical, reciprocal = np.zeros(len(rows), np.float32), np.zeros(len(rows), np.float32)
        for stage, ranking in run.rankings.items():
            if stage in run.retrievers:
                places = _places(ranking, rows)
                found = places >= 0
                reciprocal[found] += 1 / (61 + places[found])
                if stage == "lexical":
                    lexical[found] = ranking.scores[places[found]]
        asked = dict.fromkeys(terms(run.query.text))
        weights = {term: self._lexical.weight(term) if self._lexical else 1.0 for term in asked}
        total = sum(weights.values()) or 1.0
        matches = np.array([self._matches(row, weights, total) for row in rows.tolist()])
        top = float(lexical.max(initial=0.0)) or 1.0
        return np.column_stack(
            [
                dense,
                dense - dense.max(initial=-1.0),
                lexical,
                lexical / top,
                reciprocal,
                *matches.T,
                np.full(len(rows), np.log1p(len(asked))),
            ]
        ).astype(np.float32)

    def _matches(
        self, row: int, weights: Mapping[str, float], total: float
    ) -> tuple[float, float, float, float]:
        tool = self._terms(row)
        return (
            sum(weight for term, weight in weights.items() if term in tool.everything) / total,
            sum(weight for term, weight in weights.items() if term in tool.name) / total,
            sum(term in weights for term in tool.name) / (len(tool.name) or 1),
            sum(term in weights for term in tool.server) / (len(tool.server) or 1),
        )

    def _terms_of(self, row: int) -> _ToolTerms:
        tool = self._tools[row]
        return _ToolTerms(
            frozenset(terms(LEXICAL_FIELDS["all"](tool))),
            frozenset(terms(tool.name)),
            frozenset(terms(tool.server or "")),
        )


class FeatureScorer:
    """Scores candidates with a network of one hidden layer.

    Args:
        extractor: of the index the candidates come from.
        network: its weights.
    """

    def __init__(self, extractor: FeatureExtractor, network: Network) -> None:
        self._extractor = extractor
        self._network = network

    def score(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The network's score of each row, shape (n,)."""
        return self._network(self._extractor(run, rows))


@dataclass(frozen=True, slots=True)
class Network:
    """Standardise, one hidden layer of ReLUs, and a linear path around it.

    Args:
        mean: of each feature where it was trained, shape (f,).
        scale: standard deviation of each, shape (f,).
        hidden: shape (f, h).
        hidden_bias: shape (h,).
        out: shape (h,).
        direct: shape (f,).
    """

    mean: NDArray[np.float32]
    scale: NDArray[np.float32]
    hidden: NDArray[np.float32]
    hidden_bias: NDArray[np.float32]
    out: NDArray[np.float32]
    direct: NDArray[np.float32]

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of the rows of `features`, shape (n,)."""
        inputs = (features - self.mean) / self.scale
        hidden = np.maximum(inputs @ self.hidden + self.hidden_bias, 0)
        scores: NDArray[np.float32] = (hidden @ self.out + inputs @ self.direct).astype(np.float32)
        return scores

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "features": list(FEATURES),
            **{name: getattr(self, name).round(5).tolist() for name in self.__slots__},
        }

    @classmethod
    def read(cls, path: Path) -> Network:
        """A network from its JSON form.

        Raises:
            ModelError: the file cannot be read or is for other features.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values.pop("features") != list(FEATURES):
                raise ModelError(f"{path}: trained on other features than this version measures")
            return cls(**{name: np.asarray(values[name], np.float32) for name in cls.__slots__})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{path}: not a feature network: {error}") from error


def _places(ranking: Ranking, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each row in a ranking, -1 where it is absent."""
    places = {row: place for place, row in enumerate(ranking.rows.tolist())}
    return np.array([places.get(row, -1) for row in rows.tolist()], np.int64)
