"""A Config made into the parts of an engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import registry
from .catalog import Catalog, Tool
from .catalog.document import embedding_text
from .config import Config, FusionConfig, TierConfig
from .errors import ConfigError, MissingExtraError, ModelError, StoreError
from .gating.originals import originals
from .gating.screening import Screening
from .gating.votes import without_voting_tools
from .models import Encoder, Reranker, load_encoder, load_reranker
from .models.loading import FEATURES, check_model
from .retrieval import CandidateScorer, Fusion, LexicalIndex, Strategy
from .retrieval.change import Change, patched
from .retrieval.features import FeatureScorer, reader
from .retrieval.guard import Guard
from .retrieval.index import Dense, Documents, Index, rows_of
from .retrieval.learned import Learned
from .retrieval.names import Names
from .retrieval.rerank import ModelRerank, TextScorer
from .retrieval.settings import DEFAULT_BOOSTS
from .retrieval.store import Saved, current, read, save
from .retrieval.twins import Twins
from .retrieval.vectors import Vectors, encode_tools, patch_vectors
from .sections import RerankerConfig

Progress = Callable[[int, int], None]


class Builder:
    """Builds, opens and saves indexes as a Config says; holds the models they share.

    Args:
        config: what to build.

    Attributes:
        screening: judges the definitions of the catalog versions.

    Raises:
        ModelError: a model that a tier names is not there, unless `on_missing` is "degrade".
        MissingExtraError: likewise the optional dependency that a model needs.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        trust = config.trust
        self.screening = Screening(trust.scan, trust.pins, trust.approved)
        self._models: dict[str, Any] = {}
        self._lock = Lock()
        stages = {stage for tier in config.tiers.values() for stage in tier.retrievers}
        self._lexical = (
            registry.load("lexical", config.lexical.backend) if "lexical" in stages else None
        )
        self._dense: Any = (
            registry.load("dense", config.dense.backend) if "dense" in stages else None
        )

        chosen = [self._chosen(tier.reranker) for tier in config.tiers.values() if tier.reranker]
        self._rerankers = {str(one): one for one in sorted(chosen, key=str)}
        self._reads_tokens = FEATURES in self._rerankers
        self._read = reader()
        self._guards = {name: Guard() for name in self._rerankers}
        self._encoder_guard = Guard()
        self._missing: dict[str, Exception] = {}
        self._check_models()
        # `np.unique`, which fusions use, imports this on its first call: 10 ms of a request's time.
        import_module("numpy.ma")

    def _check_models(self) -> None:
        """Look for every model that a tier names, before the first request needs it."""
        degrade = self.config.on_missing == "degrade"
        for name, choice in self._rerankers.items():
            if name == FEATURES:
                continue
            spec, settings = self.config.reranker_arguments(choice)
            try:
                if not check_model("reranker", spec, **settings):
                    self._reranker(name)
            except (ModelError, MissingExtraError) as error:
                if not degrade:
                    raise _told(f"reranker {spec!r}", error) from error
                self._guards[name].failed(error)
        if self._dense is not None and degrade:
            try:
                self._encoder()
            except (ModelError, MissingExtraError) as error:
                # Without an encoder there are no vectors, so the tiers go without the stage.
                self._missing["dense"], self._dense = error, None

    def strategies(self) -> dict[str, Strategy]:
        """The configured tiers by name."""
        return {name: self._strategy(name, tier) for name, tier in self.config.tiers.items()}

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
        self, folder: Path, catalog: Catalog | None = None, *, progress: Progress | None = None
    ) -> Index:
        """The saved index, with what no longer fits it built anew.

        Raises:
            StoreError: nothing readable is saved there.
        """
        while True:
            saved = read(folder)
            try:
                return self._opened(saved, catalog, progress)
            except StoreError:
                # A writer may have replaced and removed the version meanwhile.
                if saved.folder.name == current(folder):
                    raise

    def _opened(self, saved: Saved, catalog: Catalog | None, progress: Progress | None) -> Index:
        self.screening.recall(saved.catalog, saved.screening)
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
            lexical = self._built_lexical(tools)
        if self._dense is None:
            return self._index(saved.catalog, tools, lexical, None)
        encoder = self._encoder()
        vectors, encoded = saved.vectors, 0
        if vectors is None or not vectors.fits(encoder, tokens=self._reads_tokens):
            vectors, encoded = self._encoded(tools, None, progress)
        learned = saved.learned.fitting(tools, vectors) if saved.learned else None
        fits = encoded == 0 and saved.settings.get("dense") == settings["dense"]
        folder = saved.folder / "dense" if fits else None
        return self._dense_index(
            saved.catalog, tools, lexical, vectors, encoded, learned, folder=folder
        )

    def save(self, index: Index, folder: Path) -> None:
        """Write an index as the new current version of a folder, as if built as a whole."""
        if not index.fresh:
            index = self.build(index.catalog, known=index.vectors, learned=index.learned)
        save(index, folder, self._settings(), self.screening.to_dict(index.catalog))

    def _settings(self) -> dict[str, Any]:
        settings = {}
        if self._lexical is not None:
            settings["lexical"] = self.config.lexical.saved()
        if self._dense is not None:
            settings["dense"] = self.config.dense.saved()
        return settings

    def _strategy(self, name: str, tier: TierConfig) -> Strategy:
        factory = registry.load("strategy", tier.strategy)
        try:
            strategy: Strategy = factory(
                retrievers=tier.retrievers,
                fusion=self._fusion(tier.fusion or self.config.fusion),
                reranker=str(self._chosen(tier.reranker)) if tier.reranker else None,
                depth=tier.depth,
                candidates=tier.candidates,
                fallback=tier.fallback,
                **tier.arguments(),
            )
        except TypeError as error:
            raise ConfigError(f"tiers.{name}: strategy {tier.strategy!r}: {error}") from error
        return strategy

    def _fusion(self, settings: FusionConfig) -> Fusion:
        factory = registry.load("fusion", settings.method)
        try:
            fusion: Fusion = factory(**settings.arguments())
        except (TypeError, ValueError) as error:
            raise ConfigError(f"fusion {settings.method!r}: {error}") from error
        return fusion

    def _chosen(self, reranker: str | RerankerConfig) -> str | RerankerConfig:
        return self.config.reranker if reranker == "default" else reranker

    def _encoded(
        self, tools: tuple[Tool, ...], known: Vectors | None, progress: Progress | None
    ) -> tuple[Vectors, int]:
        return encode_tools(self._encoder(), tools, known, progress, tokens=self._reads_tokens)

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
        dense = Dense(built, vectors, values, self._encoder(), self._encoder_guard)
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
            return TextScorer(self._reranker(name), texts)

        values, tokens = (dense.values, dense.vectors.tokens) if dense else (None, None)
        ready = {FEATURES: FeatureScorer(tools, values, tokens, lexical, self._read)}

        rerankers = {
            name: ModelRerank(partial(scorer, name), guard, ready.get(name))
            for name, guard in self._guards.items()
        }
        trust, copies = self.config.trust, None
        if trust.approved or trust.pins is not None:
            if twins is None:
                twins = Twins.of(tools, dense.vectors.values if dense else None)
            trusted = originals(catalog, trust.pins, trust.approved)
            copies = twins.copies(tools, trusted)
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
            missing=self._missing,
            twins=twins,
            copies=copies,
        )

    def _encoder(self) -> Encoder:
        spec, arguments = self.config.encoder_arguments()
        encoder: Encoder = self._model("encoder", lambda: load_encoder(spec, **arguments))
        return encoder

    def _reranker(self, name: str) -> Reranker:
        spec, arguments = self.config.reranker_arguments(self._rerankers[name])
        reranker: Reranker = self._model(
            f"reranker {name}", lambda: load_reranker(spec, **arguments)
        )
        return reranker

    def _model(self, key: str, load: Callable[[], Any]) -> Any:
        with self._lock:
            if key not in self._models:
                self._models[key] = load()
            return self._models[key]


def _told(subject: str, error: ModelError | MissingExtraError) -> Exception:
    """The error with the setting that searches without the model."""
    if isinstance(error, MissingExtraError):
        return error
    return ModelError(f'{subject}: {error}; or set on_missing = "degrade" to search without it')


def _updated(index: Any, content: Any, rows: NDArray[np.int64]) -> Any:
    """The next version of an index, see `protocols.Updatable`, or None to build it anew."""
    update: Callable[[Any, NDArray[np.int64]], Any] | None = getattr(index, "updated", None)
    return None if update is None else update(content, rows)
