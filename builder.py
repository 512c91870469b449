"""Builder: makes the parts of an engine from a Config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .catalog import Catalog, Tool
from .config import Config, TrustConfig
from .enrichment import Enrichments, read_enrichments
from .errors import ConfigError, StoreError
from .gating import Gate
from .gating.gatekeeper import Gatekeeper
from .gating.quarantine import Quarantine
from .gating.votes import without_voting_tools
from .retrieval import LexicalIndex, Strategy
from .retrieval.change import Change
from .retrieval.folder import folder_of
from .retrieval.held_out import DEPTH
from .retrieval.index import Dense, Index, rows_of
from .retrieval.known_requests import KnownRequests, digest
from .retrieval.learned import Learned
from .retrieval.names import Names
from .retrieval.request_vectors import RequestVectors
from .retrieval.searcher import Searcher
from .retrieval.store import Saved, current, read, save
from .retrieval.twins import Twins
from .retrieval.vectors import Vectors
from .stage_models import StageModels
from .stages import Progress, Stages
from .strategies import strategies

if TYPE_CHECKING:
    from .retrieval.static import StaticRetriever
    from .trust import Flag, Trust


class Builder:
    """Builds, opens and saves indexes with the settings of a Config.

    Has the models that they share.

    Args:
        config: the settings.
        models: encoder and rerankers; by default those that the config names.

    Attributes:
        trust: decides which definitions are quarantined; None if nothing is scanned or pinned.
        enrichments: example queries of tools.

    Raises:
        ModelError: a model that a tier names is missing, unless `on_missing` is "degrade".
        MissingExtraError: the optional dependency of a model is missing, unless `on_missing` is
            "degrade".
    """

    def __init__(self, config: Config, models: StageModels | None = None) -> None:
        self.config = config
        self.trust = _trust(config.trust)
        self.enrichments = Enrichments(read_enrichments(config.index.enrichments))
        self._stages = Stages(config, models)

    def strategies(self) -> dict[str, Strategy]:
        """The configured tiers by name."""
        return strategies(self.config)

    def build(
        self,
        catalog: Catalog,
        *,
        known: Vectors | None = None,
        known_requests: RequestVectors | None = None,
        learned: Learned | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Index a catalog version. Only tools without a known vector are encoded.

        Learned adjustments for tools that still exist are applied again. Voting tools are left out.
        """
        catalog = without_voting_tools(catalog)
        tools = rows_of(catalog)
        requests = self.enrichments.matched(tools)
        lexical = self._stages.lexical(tools, requests)
        if not self._stages.has_dense:
            return self._index(catalog, tools, lexical, None, requests=requests)
        vectors, encoded = self._stages.vectors(tools, known, progress)
        learned = learned.fitting(tools, vectors) if learned else None
        dense = self._stages.dense(tools, vectors, learned, requests, known_requests)
        return self._index(catalog, tools, lexical, dense, encoded, learned, requests=requests)

    def updated(self, index: Index, catalog: Catalog, *, progress: Progress | None = None) -> Index:
        """The index of the next catalog version, made from the last one and the changes.

        If more than half of the tools differ, it is built again with the known vectors. The last
        index can still be searched.
        """
        catalog = without_voting_tools(catalog)
        change = Change.between(index.tools, index.rows, catalog)
        touched = max(len(change.rows), len(change.gone()))
        if touched * 2 > len(catalog):
            return self._rebuilt(index, catalog, progress)
        dense, lexical, learned, encoded = index.dense, index.lexical, index.learned, 0
        requests = {**index.requests}
        for row in change.gone():
            requests.pop(change.before[row].id, None)
        requests |= self.enrichments.matched(change.changed())
        if dense is not None and touched:
            dense, learned, encoded = self._stages.updated_dense(
                dense, change, learned, requests, progress
            )
        if lexical is not None and touched:
            lexical = self._stages.updated_lexical(lexical, change, requests, index.requests)
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
            requests=requests,
            static=self._stages.updated_static(index.static, change, dense),
        )

    def _rebuilt(self, index: Index, catalog: Catalog, progress: Progress | None = None) -> Index:
        """An index of another catalog version, with the vectors of this index."""
        return self.build(
            catalog,
            known=index.vectors,
            known_requests=None if index.dense is None else index.dense.requests,
            learned=index.learned,
            progress=progress,
        )

    def taught(self, index: Index, learned: Learned | None) -> Index:
        """An index over the same tools with learned adjustments, or without.

        Raises:
            ConfigError: no tier uses vectors.
        """
        old = index.dense
        if old is None:
            raise ConfigError("usage changes vectors, and no tier uses any")
        requests = index.requests
        dense = self._stages.dense(index.tools, old.vectors, learned, requests, old.requests)
        return self._index(
            index.catalog,
            index.tools,
            index.lexical,
            dense,
            index.encoded,
            learned,
            names=index.names,
            twins=index.twins,
            requests=requests,
        )

    def open(
        self,
        folder: str | Path,
        catalog: Catalog | None = None,
        *,
        progress: Progress | None = None,
    ) -> tuple[Index, Mapping[str, str]]:
        """The saved index and the saved quarantine. Parts with other settings are built again.

        Raises:
            StoreError: the folder has no readable index.
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
                catalog,
                known=saved.vectors,
                known_requests=saved.requests,
                learned=saved.learned,
                progress=progress,
            )
        tools = rows_of(saved.catalog)
        requests = self.enrichments.matched(tools)
        settings = self._settings(requests)
        same = saved.settings.get("requests") == settings.get("requests")
        lexical = None
        if same and saved.settings.get("lexical") == settings.get("lexical"):
            lexical = self._stages.loaded_lexical(saved.folder / "lexical")
        if lexical is None:
            lexical = self._stages.lexical(tools, requests)
        if not self._stages.has_dense:
            return self._index(saved.catalog, tools, lexical, None, requests=requests)
        vectors, encoded = saved.vectors, 0
        if vectors is None or not self._stages.fits(vectors):
            vectors, encoded = self._stages.vectors(tools, None, progress)
        learned = saved.learned.fitting(tools, vectors) if saved.learned else None
        fits = encoded == 0 and same and saved.settings.get("dense") == settings["dense"]
        folder = saved.folder / "dense" if fits else None
        dense = self._stages.dense(tools, vectors, learned, requests, saved.requests, folder)
        return self._index(
            saved.catalog, tools, lexical, dense, encoded, learned, requests=requests
        )

    def save(
        self, index: Index, folder: str | Path, quarantined: Mapping[str, str] | None = None
    ) -> None:
        """Write an index as the new current version of a folder, as if built as a whole.

        Args:
            index: the index to write.
            folder: folder of all versions.
            quarantined: tool id to reason, set by an operator.
        """
        folder = folder_of(folder)
        if not index.fresh:
            index = self._rebuilt(index, index.catalog)
        save(
            index,
            folder,
            self._settings(index.requests),
            None if self.trust is None else self.trust.to_dict(index.catalog),
            quarantined,
            lexical=partial(self._stages.lexical, index.tools, index.requests),
        )

    def flags(self, catalog: Catalog, before: Mapping[str, Flag] | None = None) -> dict[str, Flag]:
        """Decide which tools of a catalog version are quarantined. Logs a line if they are new.

        Args:
            catalog: the catalog version.
            before: the flags of the version before.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        if self.trust is None:
            return {}
        from .trust import tell

        flags = self.trust.flags(catalog)
        tell(flags, before or {})
        return flags

    def _settings(self, requests: Mapping[str, KnownRequests]) -> dict[str, Any]:
        known = {"requests": digest(requests)} if requests else {}
        return self._stages.settings() | known

    def _index(
        self,
        catalog: Catalog,
        tools: tuple[Tool, ...],
        lexical: LexicalIndex | None,
        dense: Dense | None,
        encoded: int = 0,
        learned: Learned | None = None,
        *,
        requests: Mapping[str, KnownRequests],
        names: Names | None = None,
        change: Change | None = None,
        twins: Twins | None = None,
        static: StaticRetriever | None = None,
    ) -> Index:
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
            self._stages.rerankers(tools, dense, lexical),
            encoded,
            learned,
            names,
            change,
            missing=self._stages.missing,
            twins=twins,
            copies=copies,
            requests=requests,
            static=self._stages.static(tools, dense) if static is None else static,
        )


def _trust(settings: TrustConfig) -> Trust | None:
    """The `Trust` of a Config, imported only if something is scanned or pinned."""
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
    """Rows that each query finds, best first, in an index with other learned adjustments."""
    index = builder.taught(index, learned)
    everything = Gatekeeper(Gate()).admission(index, Quarantine())
    found = (
        searcher.search(everything, query, k=DEPTH, vector=vector)
        for query, vector in zip(queries, vectors, strict=True)
    )
    return [np.array([index.rows[hit.id] for hit in one], np.int64) for one in found]
