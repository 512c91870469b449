"""Stages: builds the stages of an index from a Config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import registry
from ..catalog import Tool
from ..catalog.tool_document import embedding_text
from ..config import Config
from ..models.loading import static_encoder
from ..models.picking_reranker import candidate_entry
from ..retrieval import LexicalIndex
from ..retrieval.backends.tantivy_settings import DEFAULT_BOOSTS
from ..retrieval.catalog_index import DenseStage, Documents
from ..retrieval.example_queries import (
    ExampleQueries,
    has_usage,
    moved_to_queries,
    moved_with_usage,
)
from ..retrieval.search.rerank import ModelRerank
from ..retrieval.search.static_retriever import StaticRetriever
from ..retrieval.store.vectors import Vectors, text_key
from .stage_models import StageModels

#: Tool id to the example queries of the tool.
Queries = Mapping[str, ExampleQueries]
#: Characters of a tool's text that a language model picks by.
_SUMMARY_CHARS = 300


class Stages:
    """Builds and loads the stages of indexes. Has the models that they share.

    Args:
        config: the settings.
        models: encoder and rerankers.

    Attributes:
        models: encoder and rerankers.
        has_dense: whether a whole index has a dense stage.
    """

    def __init__(self, config: Config, models: StageModels) -> None:
        self._config = config
        stages = {stage for tier in config.tiers.values() for stage in tier.retrievers}
        self._lexical: Any = (
            registry.load("lexical", config.lexical.backend) if "lexical" in stages else None
        )
        self._dense: Any = (
            registry.load("dense", config.dense.backend) if "dense" in stages else None
        )
        self.models = models
        if "dense" in models.missing_stages:
            self._dense = None
        self.has_dense = self._dense is not None
        self._has_static = "static" in stages

    def settings(self) -> dict[str, Any]:
        """The settings of the stages. A saved stage with other settings is built again."""
        settings = {}
        if self._lexical is not None:
            settings["lexical"] = self._config.lexical.saved_form()
        if self._dense is not None:
            settings["dense"] = self._config.dense.saved_form()
        return settings

    def build_lexical(
        self, tools: tuple[Tool, ...], queries: Queries, *, pauses: bool = False
    ) -> LexicalIndex | None:
        """The lexical index over tools; None if no tier needs one.

        Args:
            tools: tools by row.
            queries: example queries of the tools.
            pauses: as for `Documents`.
        """
        if self._lexical is None:
            return None
        arguments = self._lexical_arguments()
        fields = tuple(name for name, boost in arguments["boosts"].items() if boost > 0)
        built: LexicalIndex = self._lexical.build(
            Documents(tools, fields, queries, pauses=pauses), **arguments
        )
        return built

    def load_lexical(self, folder: Path) -> LexicalIndex | None:
        """The lexical index saved in a folder; None if it has to be built again."""
        if self._lexical is None:
            return None
        loaded: LexicalIndex | None = self._lexical.load(folder, **self._lexical_arguments())
        return loaded

    def make_dense(
        self,
        tools: tuple[Tool, ...],
        queries: Queries,
        vectors: Vectors,
        folder: Path | None = None,
    ) -> DenseStage:
        """The dense stage over tools.

        Args:
            tools: tools by row.
            queries: example queries of the tools.
            vectors: their vectors, arranged as `Vectors.of_tools` says.
            folder: folder in which the same stage was saved; built when absent.
        """
        values = _searched_values(tools, queries, vectors)
        arguments = self._config.dense.part_arguments()
        index = (
            self._dense.build(values, **arguments)
            if folder is None
            else self._dense.load(folder, values, **arguments)
        )
        return DenseStage(index, self.models.encoder(), self.models.encoder_guard)

    def make_static(
        self,
        tools: tuple[Tool, ...],
        queries: Queries,
        vectors: Vectors | None,
    ) -> StaticRetriever | None:
        """The static stage; None if no tier needs one.

        Args:
            tools: tools by row.
            queries: example queries of the tools.
            vectors: vectors of the tools, arranged as `Vectors.of_tools` says. They are projected,
                if they are of the encoder that the static tables were trained for.
        """
        if not self._has_static:
            return None
        static = static_encoder()
        if vectors is not None and vectors.encoder_fingerprint in (
            static.teacher_fingerprint,
            static.fingerprint,
        ):
            values = _searched_values(tools, queries, vectors)
            if vectors.encoder_fingerprint == static.teacher_fingerprint:
                # Vectors of tools with example queries are shorter than 1.
                values = static.project(values, keep_lengths=bool(queries))
        else:
            values = static.encode([embedding_text(tool) for tool in tools])
        return StaticRetriever.of(static, values)

    def make_first_static(
        self, tools: tuple[Tool, ...], queries: Queries, vectors: Vectors | None
    ) -> StaticRetriever | None:
        """The static stage over tools of which not all are encoded; None if no tier needs one.

        For the bundled encoder it is made as after the encoding, with sums of token vectors for
        texts that have no vector yet: they lie in the encoder's space (ADR 22).

        Args:
            tools: tools by row.
            queries: example queries of the tools.
            vectors: vectors of texts that were encoded before.
        """
        if not self._has_static or not self.models.encoder_is_bundled:
            return self.make_static(tools, queries, None)
        static = static_encoder()
        if vectors is not None and vectors.encoder_fingerprint != static.teacher_fingerprint:
            vectors = None

        def mean_of(queries: ExampleQueries) -> NDArray[np.float32]:
            if (
                queries.mean is not None
                and queries.mean.encoder_fingerprint == static.teacher_fingerprint
            ):
                return queries.mean.values
            mean: NDArray[np.float32] = static.encode_for_teacher(
                queries.texts_to_encode, query=True
            ).mean(axis=0)
            return mean

        values = _vectors_of_keys(
            vectors,
            [text_key(embedding_text(tool)) for tool in tools],
            lambda rows: static.encode_for_teacher([embedding_text(tools[row]) for row in rows]),
            static.teacher_dim,
        )
        queries_of_tools = [queries[tool.id] for tool in tools if tool.id in queries]
        means = _vectors_of_keys(
            vectors,
            [queries_of_tool.key for queries_of_tool in queries_of_tools],
            lambda rows: np.stack([mean_of(queries_of_tools[row]) for row in rows]),
            static.teacher_dim,
        )
        rows = rows_with_queries(tools, queries)
        values = _moved(values, tools, rows, means, queries)
        return StaticRetriever.of(static, static.project(values, keep_lengths=bool(queries)))

    def make_rerankers(self, tools: tuple[Tool, ...]) -> dict[str, ModelRerank]:
        """The rerank stages over tools, by name."""

        def texts(rows: NDArray[np.int64]) -> list[str]:
            return [embedding_text(tools[row]) for row in rows.tolist()]

        def entries(rows: NDArray[np.int64]) -> list[str]:
            return [_candidate(tools[row]) for row in rows.tolist()]

        stages = {}
        for name, guard in self.models.guards.items():
            picks = self.models.picks_from_all(name)
            load = partial(self.models.reranker, name)
            stages[name] = ModelRerank(load, entries if picks else texts, guard, reads_all=picks)
        return stages

    def _lexical_arguments(self) -> dict[str, Any]:
        # A backend that has no boosts as a setting still gets them: they say which fields to index.
        return {"boosts": DEFAULT_BOOSTS, **self._config.lexical.part_arguments()}


def _candidate(tool: Tool) -> str:
    """A tool as a language model reads it: its id, and a summary of its title and description."""
    summary = " ".join(f"{tool.title or ''} {tool.description}".split())
    return candidate_entry(tool.id, summary[:_SUMMARY_CHARS])


def _searched_values(
    tools: Sequence[Tool], queries: Queries, vectors: Vectors
) -> NDArray[np.float32]:
    """The vectors that searches compare with, shape (n, dim).

    Args:
        tools: tools by row.
        queries: example queries of the tools.
        vectors: their vectors, arranged as `Vectors.of_tools` says.
    """
    count = len(tools)
    if not has_usage(queries):
        return vectors.values[:count]
    rows = rows_with_queries(tools, queries)
    means = vectors.values[count : count + len(rows)]
    return _moved(vectors.of_tools(count), tools, rows, means, queries)


def _moved(
    values: NDArray[np.float32],
    tools: Sequence[Tool],
    rows: NDArray[np.int64],
    means: NDArray[np.float32],
    queries: Queries,
) -> NDArray[np.float32]:
    """Vectors of all tools, moved as their example queries say; shape (n, dim).

    Args:
        values: the encoder's vectors of the tools.
        tools: tools by row.
        rows: rows of the tools with example queries.
        means: mean vector of the queries of each of these.
        queries: example queries of the tools.
    """
    if has_usage(queries):
        return moved_with_usage(
            values, rows, means, [queries[tools[row].id] for row in rows.tolist()]
        )
    moved = np.array(values)
    moved[rows] = moved_to_queries(values[rows], means)
    return moved


def rows_with_queries(tools: Sequence[Tool], queries: Queries) -> NDArray[np.int64]:
    """Rows of the tools with example queries."""
    return np.array([row for row, tool in enumerate(tools) if tool.id in queries], np.int64)


def _vectors_of_keys(
    vectors: Vectors | None,
    keys: Sequence[bytes],
    encode: Callable[[Sequence[int]], NDArray[np.float32]],
    dim: int,
) -> NDArray[np.float32]:
    """A vector for each key, shape (len(keys), dim).

    Args:
        vectors: vectors by key, or None.
        keys: hashes of the texts.
        encode: returns the vectors of the keys at some positions, for those without one.
        dim: length of a vector.
    """
    values = np.empty((len(keys), dim), np.float32)
    rows = {} if vectors is None else vectors.rows
    present = [place for place, key in enumerate(keys) if key in rows]
    absent = [place for place, key in enumerate(keys) if key not in rows]
    if vectors is not None and present:
        values[present] = vectors.values[[rows[keys[place]] for place in present]]
    if absent:
        values[absent] = encode(absent)
    return values
