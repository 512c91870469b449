"""Builder: makes the parts of an engine from a Config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .catalog import Catalog, Tool
from .config import Config, TrustConfig
from .enrichment import Enrichments
from .errors import ConfigError, StoreError
from .gating import Gate
from .gating.gatekeeper import Gatekeeper
from .gating.quarantine import Quarantine
from .gating.votes import without_voting_tools
from .processes import paused_gc
from .retrieval import Strategy
from .retrieval.batch import Batch, Read
from .retrieval.change import NEW, Change
from .retrieval.held_out import DEPTH
from .retrieval.index import Index, rows_of
from .retrieval.known_requests import KnownRequests
from .retrieval.learned import Learned
from .retrieval.names import Names
from .retrieval.searcher import Searcher
from .retrieval.store import Saved, current, folder_of, read, save
from .retrieval.twins import Twins
from .retrieval.vectors import Vectors
from .stage_models import StageModels
from .stages import Progress, Stages
from .strategies import strategies

if TYPE_CHECKING:
    from .trust import Flag, Trust


class Builder:
    """Builds, opens and saves indexes with the settings of a Config.

    Has the models that they share.

    Args:
        config: the settings.
        models: encoder and rerankers; by default those that the config names.
        wait: whether tools are encoded before they are searched; see `docs/instant.md`.

    Attributes:
        trust: decides which definitions are quarantined; None if nothing is scanned or pinned.
        enrichments: example queries of tools.
        stages: builds the stages of the indexes.

    Raises:
        ModelError: a model that a tier names is missing, unless `on_missing` is "degrade".
        MissingExtraError: the optional dependency of a model is missing, unless `on_missing` is
            "degrade".
    """

    def __init__(
        self, config: Config, models: StageModels | None = None, *, wait: bool = True
    ) -> None:
        self.config = config
        self._wait = wait
        self.trust = _trust(config.trust)
        self.enrichments = Enrichments.read(config.index.enrichments)
        self.stages = Stages(
            config, StageModels(config, lazy=not wait) if models is None else models
        )

    def strategies(self) -> dict[str, Strategy]:
        """The configured tiers by name."""
        return strategies(self.config)

    @paused_gc()
    def build(
        self,
        catalog: Catalog,
        before: Index | Saved | None = None,
        *,
        progress: Progress | None = None,
        wait: bool | None = None,
    ) -> Index:
        """Index a catalog version. Only tools without a known vector are encoded.

        Without `wait`, the others get static vectors. Tools that are there to vote are left out.

        Args:
            catalog: the version.
            before: another version, whose vectors are known. What it has learned is applied if the
                encoder is the same.
            progress: called with (tools encoded, tools to encode).
            wait: whether tools are encoded before they are searched; as the builder was made, when
                absent.
        """
        wait = self._wait if wait is None else wait
        catalog = without_voting_tools(catalog)
        tools = rows_of(catalog)
        requests = self.enrichments.matched(tools)
        lexical = self.stages.lexical(tools, requests)
        index = Index(catalog, tools, Names.of(tools), lexical, requests=requests)
        if not self.stages.has_dense:
            return self._completed(index)
        known = None if before is None else before.vectors
        made = self.stages.vectors(tools, known, progress, wait=wait)
        return self._with_dense(index, made, before, wait=wait)

    def updated(
        self,
        index: Index,
        catalog: Catalog,
        *,
        progress: Progress | None = None,
        wait: bool | None = None,
    ) -> Index:
        """The index of the next catalog version, made from the last one and the changes.

        If more than half of the tools differ, it is built again with the known vectors. The last
        index can still be searched.
        """
        catalog = without_voting_tools(catalog)
        change = Change.between(index.tools, index.rows, catalog)
        touched = max(len(change.rows), len(change.gone()))
        wait = self._wait if wait is None else wait
        if touched * 2 > len(catalog):
            return self.build(catalog, index, progress=progress, wait=wait)
        dense, lexical, encoded = index.dense, index.lexical, 0
        requests = {**index.requests}
        for row in change.gone():
            requests.pop(change.before[row].id, None)
        requests |= self.enrichments.matched(change.changed())
        if dense is not None and touched:
            dense, encoded = self.stages.updated_dense(
                dense, change, index.learned, requests, progress, wait=wait
            )
        if lexical is not None and touched:
            lexical = self.stages.updated_lexical(lexical, change, requests, index.requests)
        plain = None if dense is None else dense.vectors.values
        twins = None if index.twins is None else index.twins.patched(change, plain)
        static = self.stages.updated_static(index.static, change, dense)
        return self._completed(
            Index(
                catalog,
                change.tools,
                index.names.patched(change),
                lexical,
                dense,
                static,
                requests=requests,
                encoded=encoded,
                learned=index.learned,
                change=change,
                twins=twins,
            )
        )

    def batch(self, index: Index, first: Iterable[str], most: int) -> Batch | None:
        """The next batch to encode; None if all tools are encoded.

        Args:
            index: the present index.
            first: ids of the tools to encode first.
            most: number of tools.
        """
        if (dense := index.dense) is None or not dense.pending:
            return None
        rows = dense.vectors.pending().tolist()
        if not rows:
            ids = () if dense.requests is None else dense.requests.pending()[:most]
            return Batch((), {tool_id: index.requests[tool_id] for tool_id in ids})
        left = set(rows)
        chosen = [row for one in first if (row := index.rows.get(one)) in left]
        rows = list(dict.fromkeys([*chosen, *rows]))[:most]
        return Batch(tuple(index.tools[row] for row in rows), {})

    def filled(self, index: Index, made: Read) -> Index:
        """The same catalog version with what was read, for the tools that still wait for it."""
        if index.dense is None:
            return index
        tools = index.tools
        dense, rows = self.stages.filled_dense(index.dense, tools, index.learned, made)
        if not len(rows):
            return index
        change, twins = Change(tools, tools, rows, np.full(len(rows), NEW)), index.twins
        filled = replace(
            index,
            dense=dense,
            static=self.stages.filled_static(index.static, change, dense),
            encoded=index.encoded + (0 if made.vectors is None else len(made.vectors.keys)),
            change=None,
            twins=None if twins is None else twins.patched(change, dense.vectors.values),
        )
        return self._completed(filled)

    def taught(self, index: Index, learned: Learned | None) -> Index:
        """An index over the same tools with learned adjustments, or without.

        Raises:
            ConfigError: no tier uses vectors.
        """
        old = index.dense
        if old is None:
            raise ConfigError("learning changes vectors, but no tier uses vectors")
        dense = self.stages.dense(
            index.tools, old.vectors, learned, index.requests, old.requests, wait=False
        )
        taught = replace(index, dense=dense, static=None, learned=learned, change=None)
        return self._completed(taught)

    @paused_gc()
    def open(
        self,
        folder: str | Path,
        catalog: Catalog | None = None,
        *,
        progress: Progress | None = None,
    ) -> tuple[Index, Saved]:
        """The saved index, with what no longer fits it built anew, and what was saved.

        Raises:
            StoreError: the folder has no readable index.
        """
        folder = folder_of(folder)
        while True:
            saved = read(folder)
            try:
                return self._opened(saved, catalog, progress), saved
            except StoreError:
                # A writer may have replaced and removed the version meanwhile.
                if saved.folder.name == current(folder):
                    raise

    def _opened(self, saved: Saved, catalog: Catalog | None, progress: Progress | None) -> Index:
        if self.trust is not None:
            self.trust.recall(saved.catalog, saved.screening)
        catalog = without_voting_tools(saved.catalog if catalog is None else catalog)
        if catalog is not saved.catalog and catalog.fingerprint != saved.catalog.fingerprint:
            return self.build(catalog, saved, progress=progress)
        tools = rows_of(saved.catalog)
        requests = self._known(saved, tools)
        settings, same = self._settings(requests), requests == saved.known
        lexical = None
        if same and saved.settings.get("lexical") == settings.get("lexical"):
            lexical = self.stages.loaded_lexical(saved.folder / "lexical")
        if lexical is None:
            lexical = self.stages.lexical(tools, requests)
        index = Index(saved.catalog, tools, Names.of(tools), lexical, requests=requests)
        if not self.stages.has_dense:
            return self._completed(index)
        vectors, encoded = saved.vectors, 0
        if vectors is not None and not self.stages.fits(vectors):
            vectors = None
        if vectors is None or (self._wait and len(vectors.pending())):
            vectors, encoded = self.stages.vectors(tools, vectors, progress, wait=self._wait)
        fits = vectors is saved.vectors and same and not saved.filled
        fits = fits and saved.settings.get("dense") == settings["dense"]
        folder = saved.folder / "dense" if fits else None
        return self._with_dense(index, (vectors, encoded), saved, folder, wait=self._wait)

    def _with_dense(
        self,
        index: Index,
        made: tuple[Vectors, int],
        before: Index | Saved | None,
        folder: Path | None = None,
        *,
        wait: bool,
    ) -> Index:
        """The index with a dense stage.

        Args:
            index: the other stages.
            made: vectors of its tools, and how many were encoded.
            before: the version with known vectors of example queries, and what it has learned.
            folder: folder in which the same stage was saved; built when absent.
            wait: whether to encode example queries that are not known.
        """
        vectors, encoded = made
        known = learned = None
        if before is not None:
            known, learned = before.request_vectors, before.learned
        if learned is not None and learned.model != vectors.model:
            learned = None
        dense = self.stages.dense(
            index.tools, vectors, learned, index.requests, known, folder, wait=wait
        )
        return self._completed(replace(index, dense=dense, encoded=encoded, learned=learned))

    def _known(self, saved: Saved, tools: Sequence[Tool]) -> Mapping[str, KnownRequests]:
        """Example queries of the saved tools; as saved, if their sources and vectors still fit."""
        if (
            saved.settings.get("enrichments") == self.enrichments.fingerprint
            and saved.vectors is not None
            and saved.request_vectors is not None
            and self.stages.fits(saved.vectors)
        ):
            return saved.known
        return self.enrichments.matched(tools)

    def save(
        self, index: Index, folder: str | Path, quarantined: Mapping[str, str] | None = None
    ) -> Path:
        """Write an index as the new current version of a folder, as if built as a whole.

        Returns the folder of the version.

        Args:
            index: the index to write.
            folder: folder of all versions.
            quarantined: tool id to reason, set by an operator.
        """
        folder = folder_of(folder)
        if not index.fresh:
            index = self.build(index.catalog, index, wait=False)
        return save(
            index,
            folder,
            self._settings(index.requests),
            None if self.trust is None else self.trust.to_dict(index.catalog),
            quarantined,
            lexical=partial(self.stages.lexical, index.tools, index.requests),
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
        known = {"enrichments": self.enrichments.fingerprint} if requests else {}
        return self.stages.settings() | known

    def _completed(self, index: Index) -> Index:
        """The index with the parts that follow from its stages."""
        trust, tools, dense = self.config.trust, index.tools, index.dense
        twins, copies = index.twins, dict[int, tuple[int, ...]]()
        if self.trust is not None and (trust.approved or trust.pins is not None):
            if twins is None:
                twins = Twins.of(tools, dense.vectors.values if dense else None)
            copies = twins.copies(tools, self.trust.originals(index.catalog))
        return replace(
            index,
            static=index.static or self.stages.static(tools, dense),
            rerankers=self.stages.rerankers(tools),
            missing=self.stages.models.missing,
            twins=twins,
            copies=copies,
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
