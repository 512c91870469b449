"""Stages: builds the stages of indexes from a Config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import registry
from .catalog import Tool
from .catalog.document import embedding_text
from .config import Config
from .models.loading import static_encoder
from .retrieval import LexicalIndex
from .retrieval.batch import Batch, Read
from .retrieval.change import Change, patched
from .retrieval.index import Dense, Documents
from .retrieval.known_requests import KnownRequests
from .retrieval.learned import Learned
from .retrieval.query import distinct
from .retrieval.request_vectors import RequestVectors
from .retrieval.rerank import ModelRerank
from .retrieval.settings import DEFAULT_BOOSTS
from .retrieval.stand_in import StandIn
from .retrieval.static import StaticRetriever
from .retrieval.vectors import Vectors, encode_tools, patch_vectors
from .stage_models import StageModels

Progress = Callable[[int, int], None]
Requests = Mapping[str, KnownRequests]


class Stages:
    """Builds, loads and updates the stages of indexes. Has the models that they share.

    Args:
        config: the settings.
        models: encoder and rerankers.

    Attributes:
        models: encoder and rerankers.
        has_dense: whether there is a dense stage.
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
        if "dense" in models.missing:
            self._dense = None
        self.has_dense = self._dense is not None
        self._has_static = "static" in stages

    def settings(self) -> dict[str, Any]:
        """The settings of the stages. A saved stage with other settings is built again."""
        settings = {}
        if self._lexical is not None:
            settings["lexical"] = self._config.lexical.saved()
        if self._dense is not None:
            settings["dense"] = self._config.dense.saved()
        return settings

    def lexical(self, tools: tuple[Tool, ...], requests: Requests) -> LexicalIndex | None:
        """The lexical index over tools; None if no tier needs one."""
        if self._lexical is None:
            return None
        built: LexicalIndex = self._lexical.build(
            self._documents(tools, requests), **self._lexical_arguments()
        )
        return built

    def loaded_lexical(self, folder: Path) -> LexicalIndex | None:
        """The lexical index saved in a folder; None if it has to be built again."""
        if self._lexical is None:
            return None
        loaded: LexicalIndex | None = self._lexical.load(folder, **self._lexical_arguments())
        return loaded

    def updated_lexical(
        self, index: LexicalIndex, change: Change, requests: Requests, before: Requests
    ) -> LexicalIndex | None:
        """The lexical index of the next version.

        Args:
            index: lexical index of the version before.
            change: changes from that version to the next.
            requests: example queries of the next version's tools.
            before: example queries of the version before.
        """
        updated = None
        # With the first requests of all, and without the last, every document differs.
        if bool(requests) == bool(before):
            updated = _updated(index, self._documents(change.tools, requests), change.rows)
        return self.lexical(change.tools, requests) if updated is None else updated

    def vectors(
        self,
        tools: tuple[Tool, ...],
        known: Vectors | None,
        progress: Progress | None,
        *,
        wait: bool,
    ) -> tuple[Vectors, int]:
        """Vectors of tools, and the number of encoded tools; see `encode_tools`."""
        return encode_tools(
            self.models.encoder(),
            tools,
            known,
            progress,
            stand_in=self._stand_in(wait),
        )

    def read(self, batch: Batch) -> Read:
        """Encode a batch."""
        vectors = requests = None
        if batch.tools:
            vectors, _ = self.vectors(batch.tools, None, None, wait=True)
        if batch.requests:
            requests = RequestVectors.of(self.models.encoder(), batch.requests)
        return Read(vectors, requests)

    def load_encoder(self) -> None:
        """Load the encoder, if there is a dense stage and it is not loaded yet."""
        if self.has_dense:
            self.models.load_encoder()

    def _stand_in(self, wait: bool) -> StandIn | None:
        return None if wait else self.models.stand_in()

    def fits(self, vectors: Vectors) -> bool:
        """Whether vectors were made by the configured encoder."""
        return vectors.fits(self.models.encoder())

    def dense(
        self,
        tools: tuple[Tool, ...],
        vectors: Vectors,
        learned: Learned | None,
        requests: Requests,
        known: RequestVectors | None = None,
        folder: Path | None = None,
        *,
        wait: bool,
    ) -> Dense:
        """The dense stage over tools.

        Args:
            tools: tools in order of row.
            vectors: their vectors.
            learned: learned adjustments.
            requests: example queries of the tools.
            known: vectors of example queries of an earlier version.
            folder: folder in which the same stage was saved; built when absent.
            wait: whether to encode requests that are not known.
        """
        made = self._request_vectors(requests, known, wait)
        values = _taught(tools, vectors.values, learned, made)
        settings = self._config.dense.arguments()
        index = (
            self._dense.build(values, **settings)
            if folder is None
            else self._dense.load(folder, values, **settings)
        )
        return self._dense_of(index, vectors, values, made)

    def updated_dense(
        self,
        dense: Dense,
        change: Change,
        learned: Learned | None,
        requests: Requests,
        progress: Progress | None,
        *,
        wait: bool,
    ) -> tuple[Dense, int]:
        """The dense stage of the next version, and how many tools were encoded."""
        vectors, encoded = patch_vectors(
            dense.encoder, dense.vectors, change, progress, self._stand_in(wait)
        )
        made = self._request_vectors(requests, dense.requests, wait)
        next_dense = self._patched(dense, vectors, made, change.changed(), change.rows, learned)
        return next_dense, encoded

    def filled_dense(
        self,
        dense: Dense,
        tools: tuple[Tool, ...],
        learned: Learned | None,
        made: Read,
    ) -> tuple[Dense, NDArray[np.int64]]:
        """The dense stage with the newly encoded vectors, and the changed rows.

        Args:
            dense: the present stage.
            tools: tools by row.
            learned: the learned adjustments.
            made: the encoded vectors. Vectors that no row waits for are ignored.
        """
        vectors, known, found = dense.vectors, dense.requests, list[int]()
        if made.vectors is not None:
            vectors = vectors.filled(made.vectors)
            found += np.setdiff1d(dense.vectors.pending(), vectors.pending()).tolist()
        if made.requests is not None and known is not None:
            known = known.filled(made.requests)
            its = set(made.requests.ids)
            found += [row for row, tool in enumerate(tools) if tool.id in its]
        rows = distinct(np.array(found, np.int64))
        some = [tools[row] for row in rows.tolist()]
        return self._patched(dense, vectors, known, some, rows, learned), rows

    def _patched(
        self,
        dense: Dense,
        vectors: Vectors,
        requests: RequestVectors | None,
        tools: Sequence[Tool],
        rows: NDArray[np.int64],
        learned: Learned | None,
    ) -> Dense:
        """The dense stage after some rows have changed.

        Args:
            dense: the stage before.
            vectors: vectors of all tools.
            requests: vectors of all example queries.
            tools: the tools of the changed rows.
            rows: numbers of the changed rows.
            learned: learned adjustments.
        """
        values = vectors.values
        if learned is not None or requests is not None or dense.requests is not None:
            fresh = _taught(tools, values[rows], learned, requests)
            values = patched(dense.values, len(values), rows, fresh)
        index = _updated(dense.index, values, rows)
        if index is None:
            index = self._dense.build(values, **self._config.dense.arguments())
        return self._dense_of(index, vectors, values, requests)

    def _dense_of(
        self,
        index: Any,
        vectors: Vectors,
        values: NDArray[np.float32],
        requests: RequestVectors | None,
    ) -> Dense:
        pending = len(vectors.pending()) + (0 if requests is None else len(requests.pending()))
        stand_in = self.models.stand_in() if pending else None
        return Dense(
            index,
            vectors,
            values,
            self.models.encoder(),
            self.models.encoder_guard,
            requests,
            pending,
            stand_in is None or stand_in.static is not None,
        )

    def static(self, tools: tuple[Tool, ...], dense: Dense | None) -> StaticRetriever | None:
        """The static stage over tools and their dense stage; None if no tier needs one."""
        if not self._has_static:
            return None
        values = self._static_values(tools, slice(None), dense)
        return StaticRetriever.of(static_encoder(), values)

    def updated_static(
        self, static: StaticRetriever | None, change: Change, dense: Dense | None
    ) -> StaticRetriever | None:
        """The static stage of the next version.

        Args:
            static: static stage of the version before.
            change: changes from that version to the next.
            dense: dense stage of the next version.
        """
        same = not len(change.rows) and len(change.tools) == len(change.before)
        if static is None or same:
            return static
        tools = [change.tools[row] for row in change.rows.tolist()]
        return static.updated(change, self._static_values(tools, change.rows, dense))

    def filled_static(
        self, static: StaticRetriever | None, change: Change, dense: Dense
    ) -> StaticRetriever | None:
        """The static stage after the encoder has read some tools.

        Args:
            static: static stage of the previous version.
            change: the rows that differ.
            dense: dense stage with what was read.
        """
        if static is None or dense.vectors.model != static_encoder().teacher:
            return static
        # As if built as a whole: a product of other rows may round differently.
        return self.updated_static(static, change, dense) if dense.pending else None

    def rerankers(self, tools: tuple[Tool, ...]) -> dict[str, ModelRerank]:
        """The rerank stages over tools, by name."""

        def texts(rows: NDArray[np.int64]) -> list[str]:
            return [embedding_text(tools[row]) for row in rows.tolist()]

        return {
            name: ModelRerank(partial(self.models.reranker, name), texts, guard)
            for name, guard in self.models.guards.items()
        }

    def _static_values(
        self, tools: Sequence[Tool], rows: NDArray[np.int64] | slice, dense: Dense | None
    ) -> NDArray[np.float32]:
        """Static vectors of tools: from the encoder's vectors if possible, else from definitions.

        Args:
            tools: the tools.
            rows: their rows.
            dense: the dense stage over all tools.
        """
        static = static_encoder()
        if dense is not None and dense.vectors.model == static.teacher:
            # Vectors of tools with requests are shorter than 1.
            return static.project(dense.values[rows], keep_lengths=dense.requests is not None)
        if dense is not None and dense.vectors.model == static.fingerprint:
            return dense.values[rows]
        return static.encode([embedding_text(tool) for tool in tools])

    def _documents(self, tools: tuple[Tool, ...], requests: Requests) -> Documents:
        boosts = self._lexical_arguments()["boosts"]
        fields = tuple(name for name, boost in boosts.items() if boost > 0)
        return Documents(tools, fields, requests)

    def _lexical_arguments(self) -> dict[str, Any]:
        # A backend that has no boosts as a setting still gets them: they say which fields to index.
        return {"boosts": DEFAULT_BOOSTS, **self._config.lexical.arguments()}

    def _request_vectors(
        self, requests: Requests, known: RequestVectors | None, wait: bool
    ) -> RequestVectors | None:
        if not requests:
            return None
        return RequestVectors.of(self.models.encoder(), requests, known, self._stand_in(wait))


def _taught(
    tools: Sequence[Tool],
    values: NDArray[np.float32],
    learned: Learned | None,
    requests: RequestVectors | None,
) -> NDArray[np.float32]:
    """Vectors of tools with learned adjustments and example queries."""
    values = values if learned is None else learned.vectors(values)
    return values if requests is None else requests.applied(tools, values)


def _updated(index: Any, content: Any, rows: NDArray[np.int64]) -> Any:
    """The next version of an index, see `protocols.Updatable`; None to build it again."""
    update: Callable[[Any, NDArray[np.int64]], Any] | None = getattr(index, "updated", None)
    return None if update is None else update(content, rows)
