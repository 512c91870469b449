"""A Config made into the parts of an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import registry
from .catalog import Catalog, Tool
from .catalog.document import embedding_text
from .config import Config, TrustConfig
from .errors import ConfigError, StoreError
from .gating import Gate
from .gating.gatekeeper import Gatekeeper
from .gating.quarantine import Quarantine
from .gating.votes import without_voting_tools
from .models.loading import FEATURES
from .retrieval import CandidateScorer, LexicalIndex, Strategy
from .retrieval.change import Change, patched
from .retrieval.features import FeatureScorer, reader
from .retrieval.folder import folder_of
from .retrieval.held_out import DEPTH
from .retrieval.index import Dense, Documents, Index, rows_of
from .retrieval.learned import Learned
from .retrieval.names import Names
from .retrieval.rerank import ModelRerank, TextScorer
from .retrieval.searcher import Searcher
from .retrieval.settings import DEFAULT_BOOSTS
from .retrieval.store import Saved, current, read, save
from .retrieval.twins import Twins
from .retrieval.vectors import Vectors, encode_tools, patch_vectors
from .stage_models import StageModels
from .strategies import strategies

if TYPE_CHECKING:
    from .trust import Flag, Trust

Progress = Callable[[int, int], None]


class Builder:
    """Builds, opens and saves indexes as a Config says; holds the models they share.

    Args:
        config: what to build.
        models: what encodes and reranks; by default, what the config names.

    Attributes:
        trust: decides which definitions may be shown; None where nothing is scanned or pinned.

    Raises:
        ModelError: a model that a tier names is not there, unless `on_missing` is "degrade".
        MissingExtraError: likewise the optional dependency that a model needs.
    """

    def __init__(self, config: Config, models: StageModels | None = None) -> None:
        self.config = config
        self.trust = _trust(config.trust)
        stages = {stage for tier in config.tiers.values() for stage in tier.retrievers}
        self._lexical = (
            registry.load("lexical", config.lexical.backend) if "lexical" in stages else None
        )
        self._dense: Any = (
            registry.load("dense", config.dense.backend) if "dense" in stages else None
        )

        self._models = StageModels(config) if models is None else models
        if "dense" in self._models.missing:
            self._dense = None
        self._reads_tokens = FEATURES in self._models.guards
        self._read = reader()

    def strategies(self) -> dict[str, Strategy]:
        """The configured tiers by name."""
        return strategies(self.config)

    def build(
        self,
        catalog: Catalog,
        *,
        known: Vectors | None = None,
        learned: Learned | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Index a catalog version, encoding only what `known` does not hold.

        What of `learned` still holds is applied. Tools that are there to vote are left out.
        """
        catalog = without_voting_tools(catalog)
        tools = rows_of(catalog)
        lexical = self._built_lexical(tools)
        if self._dense is None:
            return self._index(catalog, tools, lexical, None)
        vectors, encoded = self._encoded(tools, known, progress)
        learned = learned.fitting(tools, vectors) if learned else None
        return self._dense_index(catalog, tools, lexical, vectors, encoded, learned)

    def updated(self, index: Index, catalog: Catalog, *, progress: Progress | None = None) -> Index:
        """The index of the next catalog version, made from the last one and the difference.

        Where more than half of the tools differ it is built anew, from the vectors there are. The
        last index goes on to serve its requests.
        """
        catalog = without_voting_tools(catalog)
        change = Change.between(index.tools, index.rows, catalog)
        touched = max(len(change.rows), len(change.gone()))
        if touched * 2 > len(catalog):
            return self.build(
                catalog, known=index.vectors, learned=index.learned, progress=progress
            )
        dense, lexical, learned, encoded = index.dense, index.lexical, index.learned, 0
        if dense is not None and touched:
            vectors, encoded = patch_vectors(dense.encoder, dense.vectors, change, progress)
            learned = learned.fitting(change.tools, vectors) if learned else None
            values = vectors.values
            if learned is not None:
                fresh = learned.vectors(change.changed(), values[change.rows])
                values = patched(dense.values, len(values), change.rows, fresh)
            searched = _updated(dense.index, values, change.rows)
            if searched is None:
                searched = self._dense.build(values, **self.config.dense.arguments())
            dense = Dense(searched, vectors, values, dense.encoder, dense.guard)
        if lexical is not None and touched:
            lexical = _updated(lexical, self._documents(change.tools), change.rows)
            if lexical is None:
                lexical = self._built_lexical(change.tools)
        names = index.names.patched(change)
        plain = None if dense is None else dense.vectors.values
        twins = None if index.twins is None else index.twins.patched(change, plain)
        return self._index(
            catalog,
            change.tools,
            lexical,
            dense,
            encoded,
            learned,
            names=names,
            change=change,
            twins=twins,
        )

    def taught(self, index: Index, learned: Learned | None) -> Index:
        """An index over the same tools with what usage taught, or without any.

        Raises:
            ConfigError: no tier uses vectors.
        """
        if self._dense is None or index.dense is None:
            raise ConfigError("usage changes vectors, and no tier uses any")
        return self._dense_index(
            index.catalog,
            index.tools,
            index.lexical,
            index.dense.vectors,
            index.encoded,
            learned,
            names=index.names,
            twins=index.twins,
        )

    def open(
        self,
        folder: str | Path,
        catalog: Catalog | None = None,
        *,
        progress: Progress | None = None,
    ) -> tuple[Index, Mapping[str, str]]:
        """The saved index, with what no longer fits it built anew, and the saved quarantine.

        Raises:
            StoreError: nothing readable is saved there.
        """
        folder = folder_of(folder)
        while True:
            saved = read(folder)
            try:
                return self._opened(saved, catalog, progress), saved.quarantined
            except StoreError:
                # A writer may have replaced and removed the version meanwhile.
                if saved.folder.name == current(folder):
                    raise

    def _opened(self, saved: Saved, catalog: Catalog | None, progress: Progress | None) -> Index:
        if self.trust is not None:
            self.trust.recall(saved.catalog, saved.screening)
        catalog = without_voting_tools(saved.catalog if catalog is None else catalog)
        if catalog is not saved.catalog and catalog.fingerprint != saved.catalog.fingerprint:
            return self.build(
                catalog, known=saved.vectors, learned=saved.learned, progress=progress
            )
        tools = rows_of(saved.catalog)
        settings = self._settings()
        if self._lexical is not None and saved.settings.get("lexical") == settings["lexical"]:
            lexical = self._lexical.load(saved.folder / "lexical", **self._lexical_arguments())
        else:
            lexical = None
        if lexical is None:
            lexical = self._built_lexical(tools)
        if self._dense is None:
            return self._index(saved.catalog, tools, lexical, None)
        encoder = self._models.encoder()
        vectors, encoded = saved.vectors, 0
        if vectors is None or not vectors.fits(encoder, tokens=self._reads_tokens):
            vectors, encoded = self._encoded(tools, None, progress)
        learned = saved.learned.fitting(tools, vectors) if saved.learned else None
        fits = encoded == 0 and saved.settings.get("dense") == settings["dense"]
        folder = saved.folder / "dense" if fits else None
        return self._dense_index(
            saved.catalog, tools, lexical, vectors, encoded, learned, folder=folder
        )

    def save(
        self, index: Index, folder: str | Path, quarantined: Mapping[str, str] | None = None
    ) -> None:
        """Write an index as the new current version of a folder, as if built as a whole.

        Args:
            index: what to write.
            folder: of all versions.
            quarantined: tool id to reason, as an operator set it.
        """
        folder = folder_of(folder)
        if not index.fresh:
            index = self.build(index.catalog, known=index.vectors, learned=index.learned)
        save(
            index,
            folder,
            self._settings(),
            None if self.trust is None else self.trust.to_dict(index.catalog),
            quarantined,
            lexical=partial(self._built_lexical, index.tools),
        )

    def flags(self, catalog: Catalog, before: Mapping[str, Flag] | None = None) -> dict[str, Flag]:
        """What trust decides about a catalog version; logs a line if other tools are quarantined.

        Args:
            catalog: the version.
            before: what it decided about the version before.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        if self.trust is None:
            return {}
        from .trust import tell

        flags = self.trust.flags(catalog)
        tell(flags, before or {})
        return flags

    def _settings(self) -> dict[str, Any]:
        settings = {}
        if self._lexical is not None:
            settings["lexical"] = self.config.lexical.saved()
        if self._dense is not None:
            settings["dense"] = self.config.dense.saved()
        return settings

    def _encoded(
        self, tools: tuple[Tool, ...], known: Vectors | None, progress: Progress | None
    ) -> tuple[Vectors, int]:
        return encode_tools(
            self._models.encoder(), tools, known, progress, tokens=self._reads_tokens
        )

    def _built_lexical(self, tools: tuple[Tool, ...]) -> LexicalIndex | None:
        if self._lexical is None:
            return None
        built: LexicalIndex = self._lexical.build(
            self._documents(tools), **self._lexical_arguments()
        )
        return built

    def _documents(self, tools: tuple[Tool, ...]) -> Documents:
        boosts = self._lexical_arguments()["boosts"]
        return Documents(tools, tuple(name for name, boost in boosts.items() if boost > 0))

    def _lexical_arguments(self) -> dict[str, Any]:
        # A backend that has no boosts as a setting still gets them: they say which fields to index.
        return {"boosts": DEFAULT_BOOSTS, **self.config.lexical.arguments()}

    def _dense_index(
        self,
        catalog: Catalog,
        tools: tuple[Tool, ...],
        lexical: LexicalIndex | None,
        vectors: Vectors,
        encoded: int,
        learned: Learned | None,
        *,
        folder: Path | None = None,
        names: Names | None = None,
        twins: Twins | None = None,
    ) -> Index:
        """An index with a dense stage over the refined vectors, opened from `folder` or built."""
        values = vectors.values if learned is None else learned.vectors(tools, vectors.values)
        settings = self.config.dense.arguments()
        built = (
            self._dense.build(values, **settings)
            if folder is None
            else self._dense.load(folder, values, **settings)
        )
        dense = Dense(built, vectors, values, self._models.encoder(), self._models.encoder_guard)
        return self._index(
            catalog, tools, lexical, dense, encoded, learned, names=names, twins=twins
        )

    def _index(
        self,
        catalog: Catalog,
        tools: tuple[Tool, ...],
        lexical: LexicalIndex | None,
        dense: Dense | None,
        encoded: int = 0,
        learned: Learned | None = None,
        *,
        names: Names | None = None,
        change: Change | None = None,
        twins: Twins | None = None,
    ) -> Index:
        def texts(rows: NDArray[np.int64]) -> list[str]:
            return [embedding_text(tools[row]) for row in rows.tolist()]

        def scorer(name: str) -> CandidateScorer:
            return TextScorer(self._models.reranker(name), texts)

        values, tokens = (dense.values, dense.vectors.tokens) if dense else (None, None)
        ready = {FEATURES: FeatureScorer(tools, values, tokens, lexical, self._read)}

        rerankers = {
            name: ModelRerank(partial(scorer, name), guard, ready.get(name))
            for name, guard in self._models.guards.items()
        }
        trust, copies = self.config.trust, None
        if self.trust is not None and (trust.approved or trust.pins is not None):
            if twins is None:
                twins = Twins.of(tools, dense.vectors.values if dense else None)
            copies = twins.copies(tools, self.trust.originals(catalog))
        return Index(
            catalog,
            tools,
            lexical,
            dense,
            rerankers,
            encoded,
            learned,
            names,
            change,
            missing=self._models.missing,
            twins=twins,
            copies=copies,
        )


def _trust(settings: TrustConfig) -> Trust | None:
    """What judges definitions; imported only where something is scanned or pinned."""
    if not settings.scan and settings.pins is None and not settings.approved:
        return None
    from .trust import Trust

    return Trust(scans=settings.scan, pins=settings.pins, approved=settings.approved)


def ranked(
    builder: Builder,
    searcher: Searcher,
    index: Index,
    learned: Learned | None,
    queries: Sequence[str],
    vectors: NDArray[np.float32],
) -> list[NDArray[np.int64]]:
    """Rows that each request finds, best first, in an index with other learned adjustments."""
    index = builder.taught(index, learned)
    everything = Gatekeeper(Gate()).admission(index, Quarantine())
    found = (
        searcher.search(everything, query, k=DEPTH, vector=vector)
        for query, vector in zip(queries, vectors, strict=True)
    )
    return [np.array([index.rows[hit.id] for hit in one], np.int64) for one in found]


def _updated(index: Any, content: Any, rows: NDArray[np.int64]) -> Any:
    """The next version of an index, see `protocols.Updatable`, or None to build it anew."""
    update: Callable[[Any, NDArray[np.int64]], Any] | None = getattr(index, "updated", None)
    return None if update is None else update(content, rows)
