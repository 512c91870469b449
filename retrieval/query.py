"""A query as the stages of a search get it, and the ranking that a stage returns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError

#: Maximum characters of a query that are read. No encoder reads as many; it limits the work.
MAX_QUERY_CHARS = 8_000

# The beginning of a question. "How do I delete a page?" asks for the same tool as the command.
_QUESTION = re.compile(
    r"\W*(?:who|whose|which|what|where|when|why|how(?! (?:do|can|could|should|would|to)\b)"
    r"|is|are|was|were|does|did|has)\b",
    re.IGNORECASE,
)


def bounded_query(text: str, place: str = "query") -> str:
    """The part of a query that is read: its first `MAX_QUERY_CHARS` characters.

    Args:
        text: the query.
        place: the argument, for errors.

    Raises:
        RequestError: it is no text, or has nothing but blanks.
    """
    if not isinstance(text, str):
        raise RequestError(f"{place}: a text, not {type(text).__name__}")
    bounded_text = text[:MAX_QUERY_CHARS]
    if not bounded_text.strip():
        raise RequestError(f"{place}: is empty; pass what the user asked for")
    return bounded_text


def is_question(text: str) -> bool:
    """Whether a query asks for facts, so that its verbs are no commands: "who opened this issue?".

    Args:
        text: the query.
    """
    return _QUESTION.match(text) is not None


@dataclass(frozen=True, slots=True)
class Query:
    """One query as the stages of a search get it.

    Args:
        text: the query, at most `MAX_QUERY_CHARS` characters.
        allowed: mask over the rows of the index, shape (n,), or None when every row may be
            returned. Stages search *inside* it.
        vector: vector of the text, shape (dim,); None if it is not encoded yet.
        deadline: `perf_counter()` value by which the answer is due; None for no limit.
        queued_ms: milliseconds that the query waited until the encoder began.
    """

    text: str
    allowed: NDArray[np.bool_] | None = None
    vector: NDArray[np.float32] | None = None
    deadline: float | None = None
    queued_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows of the index, best first.

    Args:
        rows: shape (m,). Ties are in order of row, which is that of tool id.
        scores: shape (m,), descending.
        max_other_score: maximum score of all other rows; None if nothing is known but that it is at
            most the lowest score here.
        best_covers: share of the searched terms, or else of the query's, that are in the first
            row's definition; None if nobody knows.
        searched_terms: the query's terms that any row has, with corrections; None if the search
            does not know them.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    max_other_score: float | None = None
    best_covers: float | None = None
    searched_terms: Sequence[str] | None = None

    @classmethod
    def empty(cls) -> Ranking:
        """A ranking without rows."""
        return cls(np.empty(0, np.int64), np.empty(0, np.float32))

    @classmethod
    def best(cls, rows: NDArray[np.int64], scores: NDArray[np.float32], depth: int) -> Ranking:
        """The `depth` best of unordered rows, by score, ties by row."""
        if len(rows) > depth:
            cut = np.partition(scores, len(scores) - depth)[len(scores) - depth]
            keep = np.flatnonzero(scores >= cut)
            rows, scores = rows[keep], scores[keep]
        order = np.lexsort((rows, -scores))[:depth]
        return cls(rows[order], scores[order])

    def __len__(self) -> int:
        return len(self.rows)

    def head(self, depth: int) -> Ranking:
        """The first `depth` rows."""
        return Ranking(self.rows[:depth], self.scores[:depth])


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values in ascending order, each once.

    As `np.unique`, whose first call imports a part of numpy: 30 ms of a process's first answer.
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def ties_by_row(ranking: Ranking) -> Ranking:
    """The ranking with neighbours of equal score in order of row, which is that of tool id.

    Rankings of this package have this order already. A user's strategy may not.

    Args:
        ranking: any ranking; its scores need not be descending.
    """
    tied = ranking.scores[1:] == ranking.scores[:-1]
    if not (tied & (ranking.rows[1:] < ranking.rows[:-1])).any():
        return ranking
    group = np.concatenate([[0], np.cumsum(~tied)])
    return replace(ranking, rows=ranking.rows[np.lexsort((ranking.rows, group))])
