"""Example queries of tools, as an index uses them: their words, and what their vectors change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from .store.vectors import text_key

#: Source of the queries that `shortlist learn` writes.
USAGE: Final = "usage"
#: What the mean of a tool's example queries weighs beside its definition, and the length of the
#: vector of a tool that has some. They lie nearer to queries than definitions do: at full length
#: such tools would displace tools without any. Chosen on mcp_dev (ADR 20).
QUERY_WEIGHT, MOVED_LENGTH = 1.3, 0.9


#: In a catalog with queries from usage: the length of tools with queries, beside that of tools
#: without, 1; and the number of queries that a predicted mean counts as. Chosen on mcp_dev and a
#: part of the training set mcp (ADR 28).
LENGTH_WITH_USAGE, PREDICTION_COUNT = 0.96, 5
#: L2 penalty of the prediction (ridge regression), for unit vectors. So few tools predict little.
_PREDICTION_PENALTY = 0.3


class QueryMean(NamedTuple):
    """The mean of the vectors of some queries, made beforehand.

    Args:
        encoder_fingerprint: fingerprint of the encoder.
        values: shape (dim,).
    """

    encoder_fingerprint: str
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ExampleQueries:
    """The example queries of one tool.

    Args:
        queries: example queries.
        when: sentences on when to use the tool.
        sources: sources of the queries, without duplicates.
        stale: whether they were written for another definition of the tool.
        mean: mean vector of the queries, if it is known.
        summary: what the tool does, in the user's words, for prompts; it is not searched.
    """

    queries: tuple[str, ...]
    when: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    stale: bool = False
    mean: QueryMean | None = field(default=None, compare=False, repr=False)
    summary: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """All of it, as the lexical index reads it."""
        return " ".join((*self.queries, *self.when))

    @property
    def texts_to_encode(self) -> tuple[str, ...]:
        """The texts to encode: the queries, or the sentences if there are none."""
        return self.queries or self.when

    def to_dict(self) -> dict[str, Any]:
        """Who wrote them, without their texts; JSON form."""
        return {"sources": list(self.sources), "stale": self.stale}

    @property
    def key(self) -> bytes:
        """Hash of queries and sentences, under which their mean is found again."""
        return text_key(json.dumps([self.queries, self.when], ensure_ascii=False))


def moved_to_queries(
    values: NDArray[np.float32], means: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Vectors of tools, moved towards their example queries; shape (m, dim).

    v becomes LENGTH * (v + WEIGHT * r) / |v + WEIGHT * r|, r the mean of the queries.

    Args:
        values: vectors of tools with example queries, L2-normalised, shape (m, dim).
        means: the mean vector of the queries of each, shape (m, dim).
    """
    moved = values + QUERY_WEIGHT * means
    lengths = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
    unit: NDArray[np.float32] = MOVED_LENGTH * moved / lengths
    return unit


def has_usage(queries: Mapping[str, ExampleQueries]) -> bool:
    """Whether any tool has queries from usage, so that `moved_with_usage` makes the vectors."""
    return any(USAGE in example.sources for example in queries.values())


def moved_with_usage(
    values: NDArray[np.float32],
    rows: NDArray[np.int64],
    means: NDArray[np.float32],
    queries: Sequence[ExampleQueries],
) -> NDArray[np.float32]:
    """Vectors of all tools in a catalog with queries from usage, shape (n, dim).

    The tools with such queries show how the users' words differ from definitions. A ridge
    regression from vectors of definitions to means of queries learns that. It predicts a mean for
    each tool, so that tools without queries are still found beside the others.

    v becomes the unit vector of v + WEIGHT * r. For a tool without queries, r is the prediction.
    For one with m queries, r is the mean of these and of PREDICTION_COUNT times the prediction, and
    the vector is shorter (LENGTH_WITH_USAGE).

    Args:
        values: vectors of the tools, L2-normalised, shape (n, dim).
        rows: rows of the tools with example queries, shape (m,).
        means: the mean vector of the queries of each of these, shape (m, dim).
        queries: the example queries of each of these.
    """
    from_usage = np.array([USAGE in example.sources for example in queries], np.bool_)
    definitions = values[rows[from_usage]].astype(np.float64)
    covariance = definitions.T @ definitions + _PREDICTION_PENALTY * np.eye(values.shape[1])
    change = np.linalg.solve(covariance, definitions.T @ (means[from_usage] - definitions))
    predicted = values + values @ change.astype(np.float32)
    counts = np.array([len(example.texts_to_encode) for example in queries], np.float32)[:, None]
    query_means = predicted.copy()
    query_means[rows] = (counts * means + PREDICTION_COUNT * predicted[rows]) / (
        counts + PREDICTION_COUNT
    )
    moved = values + QUERY_WEIGHT * query_means
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
    moved[rows] *= LENGTH_WITH_USAGE
    return moved


def save_queries(path: Path, queries: Mapping[str, ExampleQueries]) -> None:
    """Write the example queries of all tools, without their means."""
    rows = {
        tool_id: [example.queries, example.when, example.sources, example.stale, example.summary]
        for tool_id, example in queries.items()
    }
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def load_queries(path: Path) -> dict[str, ExampleQueries]:
    """Tool id to the example queries that `save_queries` wrote; empty if there is no such file."""
    rows = from_json(path.read_bytes()) if path.exists() else {}
    return {
        tool_id: ExampleQueries(tuple(queries), tuple(when), tuple(sources), stale, summary=summary)
        for tool_id, (queries, when, sources, stale, summary) in rows.items()
    }
