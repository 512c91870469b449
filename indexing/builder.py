"""Builder: makes, opens and saves the indexes of an engine from a Config."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..catalog import Catalog, Tool
from ..catalog.catalog import differing
from ..catalog.schema import canonical_json, digest
from ..config import Config, TrustConfig
from ..enrichment import ExampleQueryMatcher
from ..errors import ModelError, StoreError
from ..gating.votes import without_voting_tools
from ..models.loading import static_encoder
from ..processes import paused_gc
from ..retrieval.catalog_index import Index
from ..retrieval.example_queries import ExampleQueries
from ..retrieval.search.twins import Copies, Twins
from ..retrieval.store.vectors import Vectors
from ..retrieval.store.versions import SavedVersion, current_version_name, folder_of, read
from .build import Backend, Build, CatalogVersion
from .memory_build import MemoryBackend
from .stage_models import StageModels
from .stages import Stages

if TYPE_CHECKING:
    from ..trust import Flag, Trust

_LOG = logging.getLogger(__name__)


class Builder:
    """Builds, opens and saves indexes with the settings of a Config.

    Has the models that they share.

    Args:
        config: the settings.
        models: encoder and rerankers; by default those that the config names.
        files_may_be_gone: whether files of example queries may be missing, because a saved index
            has those of its tools.

    Attributes:
        trust: decides which definitions are quarantined; None if nothing is scanned or pinned.
        example_queries: example queries of tools.
        backend: where the versions are kept.

    Raises:
        ModelError: a model that a tier names is missing, unless `on_missing` is "degrade".
        MissingExtraError: the optional dependency of a model is missing, unless `on_missing` is
            "degrade".
    """

    def __init__(
        self, config: Config, models: StageModels | None = None, *, files_may_be_gone: bool = False
    ) -> None:
        self.config = config
        self.trust = _trust(config.trust)
        names = config.index.example_queries
        self._missing_files = [
            name
            for name in names
            if files_may_be_gone and isinstance(name, Path) and not name.exists()
        ]
        self._saved_queries: Mapping[str, ExampleQueries] = {}
        self.reload_example_queries()
        self._stages = Stages(config, StageModels(config) if models is None else models)
        self.backend = _backend(config, self._stages)

    def reload_example_queries(self) -> None:
        """Read the files of example queries, for the builds from now on.

        Raises:
            ConfigError: see `read_example_queries`.
        """
        names = self.config.index.example_queries
        self._missing_files = [name for name in self._missing_files if not name.exists()]
        self.example_queries = ExampleQueryMatcher.read(
            [name for name in names if name not in self._missing_files]
        )

    def sharing_models(self, config: Config) -> Builder:
        """A builder with other settings and the same models.

        Args:
            config: the settings. They name the same models as those of this builder.
        """
        return Builder(config, self._stages.models)

    @property
    def build_runs_model(self) -> bool:
        """Whether a build runs a model, so that a version without it is worth having first."""
        return self._stages.has_dense and self._stages.models.encoder_spec != "static"

    @paused_gc()
    def begin(
        self,
        catalog: Catalog,
        previous: Index | None = None,
        *,
        unfinished: Build | None = None,
        vectors: Vectors | None = None,
        trusted_pin_ages: Mapping[str, int] | None = None,
        rematch_all: bool = False,
    ) -> Build:
        """Begin the build of a catalog version. Only texts without a known vector are encoded.

        Args:
            catalog: the version.
            previous: the version that is searched now.
            unfinished: a build that was given up; what it encoded is used again.
            vectors: vectors by text, in place of those of `previous`.
            trusted_pin_ages: see `trusted_pin_ages`; read now when absent.
            rematch_all: whether unchanged tools get their example queries anew too.
        """
        catalog = without_voting_tools(catalog)
        tools = catalog.in_id_order
        trusted_pin_ages = (
            self.trusted_pin_ages(catalog) if trusted_pin_ages is None else trusted_pin_ages
        )
        queries = None
        if previous is not None and not trusted_pin_ages and not rematch_all:
            was, is_now = differing(previous.built_tools, tools)
            kept = set(map(id, previous.built_tools[was])).intersection(map(id, tools[is_now]))
            changed_ids = {tool.id for tool in previous.built_tools[was] if id(tool) not in kept}
            queries = self._match_queries(
                [tool for tool in tools[is_now] if id(tool) not in kept], trusted_pin_ages
            )
            queries |= {
                tool_id: tool_queries
                for tool_id, tool_queries in previous.example_queries.items()
                if tool_id not in changed_ids
            }
        version = self._version(catalog, trusted_pin_ages, queries)
        return self.backend.begin(version, previous, unfinished, vectors)

    @paused_gc()
    def connect(self, previous: Index | None = None) -> Build:
        """Begin a build of the catalog that other engines wrote; nothing of it is written.

        Args:
            previous: the version that is searched now, whose definitions are not read again.

        Raises:
            ConfigError: the setting `index.backend` shares no catalog.
            StoreError: the catalog cannot be read.
        """
        return self.backend.connect(
            lambda catalog: self._version(without_voting_tools(catalog)), previous
        )

    def _version(
        self,
        catalog: Catalog,
        trusted_pin_ages: Mapping[str, int] | None = None,
        queries: Mapping[str, ExampleQueries] | None = None,
    ) -> CatalogVersion:
        """A version of a catalog without tools for votes.

        Args:
            catalog: its tools.
            trusted_pin_ages: see `trusted_pin_ages`; read now when absent.
            queries: tool id to example queries; matched now when absent.
        """
        if trusted_pin_ages is None:
            trusted_pin_ages = self.trusted_pin_ages(catalog)
        if queries is None:
            queries = self._match_queries(catalog.in_id_order, trusted_pin_ages)
        queries_hash = self._example_queries_hash(trusted_pin_ages)
        return CatalogVersion(catalog, queries, queries_hash, trusted_pin_ages)

    @paused_gc()
    def finish(self, build: Build) -> Index:
        """The index of a build that has nothing left to encode."""
        return replace(build.index(), missing_stages=self._stages.models.missing_stages)

    @paused_gc()
    def make_provisional(self, build: Build) -> Index:
        """The index of a build that has not begun to encode."""
        index, missing = build.provisional_index(), self._stages.models.missing_stages
        if index.is_provisional:
            waiting = ModelError(f"encoder: has {build.tools_to_encode:,} tools to read first")
            missing = {**missing, "dense": waiting}
        return replace(index, missing_stages=missing)

    @paused_gc()
    def open(
        self, folder: str | Path, catalog: Catalog | None = None
    ) -> tuple[Build, SavedVersion]:
        """Begin a build from a saved index; returns it with what was saved.

        Parts that no longer fit the tools or the settings are built again.

        Args:
            folder: folder of all versions.
            catalog: the present catalog; the saved one when absent.

        Raises:
            StoreError: the folder has no readable index.
        """
        folder = folder_of(folder)
        while True:
            saved = read(folder)
            try:
                return self._begin_from(saved, catalog), saved
            except StoreError:
                # A writer may have replaced and removed the version meanwhile.
                if saved.folder.name == current_version_name(folder):
                    raise

    def _begin_from(self, saved: SavedVersion, catalog: Catalog | None) -> Build:
        if self.trust is not None:
            self.trust.use_saved_findings(saved.catalog, saved.screening)
        provider_tools = (saved if catalog is None else catalog).provider_tools
        catalog = without_voting_tools(saved.catalog if catalog is None else catalog)
        is_saved_catalog = (
            catalog is saved.catalog or catalog.fingerprint == saved.catalog.fingerprint
        )
        if is_saved_catalog:
            catalog = saved.catalog
        catalog.provider_tools = provider_tools
        if self._missing_files:
            files = ", ".join(map(str, self._missing_files))
            _LOG.warning("%s: gone; the example queries in the saved index are used", files)
            self._saved_queries = saved.example_queries
        trusted_pin_ages = self.trusted_pin_ages(catalog)
        queries_hash = self._example_queries_hash(trusted_pin_ages)
        has_same_queries = saved.settings.get("example_queries") == queries_hash
        are_saved = is_saved_catalog and saved.vectors is not None and has_same_queries
        queries = saved.example_queries if are_saved else None
        version = self._version(catalog, trusted_pin_ages, queries)
        return self.backend.begin_saved(version, saved, same_catalog=is_saved_catalog)

    def _example_queries_hash(self, trusted_pin_ages: Mapping[str, int]) -> str:
        """Hash of what decides on example queries: the rows, and the ages of pins."""
        rows = self.example_queries.fingerprint
        ages = canonical_json(dict(trusted_pin_ages)).encode("utf-8", "replace")
        return digest((rows.encode(), ages)) if trusted_pin_ages else rows

    def _match_queries(
        self, tools: Sequence[Tool], trusted_pin_ages: Mapping[str, int]
    ) -> dict[str, ExampleQueries]:
        """Tool id to example queries; those that only a saved index has, if their file is gone."""
        matched = self.example_queries.match_all(tools, trusted_pin_ages)
        saved = {
            tool.id: self._saved_queries[tool.id]
            for tool in tools
            if tool.id in self._saved_queries
        }
        return matched | saved

    def save(
        self,
        index: Index,
        folder: str | Path,
        quarantined: Mapping[str, str] | None = None,
        provider_tools: Sequence[Mapping[str, Any]] = (),
    ) -> Path:
        """Write an index as the new current version of a folder.

        Returns the folder of the version.

        Args:
            index: the index to write; it shows the tools that it was built over.
            folder: folder of all versions.
            quarantined: tool id to reason, set by an operator.
            provider_tools: tools that the model's provider runs.
        """
        settings: dict[str, Any] = {
            "example_queries": index.example_queries_hash,
            "config": self.config.settings_to_save(),
        }
        if provider_tools:
            settings["provider_tools"] = [dict(tool) for tool in provider_tools]
        screening = None if self.trust is None else self.trust.to_dict(index.catalog)
        return self.backend.save(index, folder_of(folder), settings, screening, quarantined)

    def encoder_of(self, index: Index) -> str | None:
        """Fingerprint of the encoder of an index, also while it waits for that; None without."""
        if index.encoder is not None:
            return index.encoder.fingerprint
        waits = index.is_provisional and self._stages.models.encoder_is_bundled
        return static_encoder().teacher_fingerprint if waits else None

    def flags(
        self, catalog: Catalog, previous: Mapping[str, Flag] | None = None
    ) -> dict[str, Flag]:
        """Decide which tools of a catalog version are quarantined. Logs a line if they are new.

        Args:
            catalog: the catalog version.
            previous: the flags of the previous version.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        if self.trust is None:
            return {}
        from ..trust.flag import warn_of_quarantine

        flags = self.trust.flags(catalog)
        warn_of_quarantine(flags, previous or {})
        return flags

    def trusted_pin_ages(self, catalog: Catalog) -> Mapping[str, int]:
        """The tools that are approved or pinned as they are, and the ages of their pins.

        No younger copy ranks before them, or has their example queries.

        Raises:
            PinsError: the file of pins is missing or cannot be read.
        """
        trust = self.config.trust
        if self.trust is None or not (trust.approved or trust.pins is not None):
            return {}
        return self.trust.trusted_pin_ages(catalog)

    def with_copies_ranked_behind(self, index: Index, trusted_pin_ages: Mapping[str, int]) -> Index:
        """The index in which copies of other servers' tools rank behind these tools.

        Args:
            index: any version.
            trusted_pin_ages: tools and the ages of their pins, see `trusted_pin_ages`.
        """
        if not trusted_pin_ages or len({trusted_pin_ages.get(tool.id) for tool in index.tools}) < 2:
            return replace(index, copies=Copies())
        twins = index.twins or Twins.of(index.tools, index.tool_vectors)
        copies = Copies.of(index.tools, twins.copies(index.tools, trusted_pin_ages))
        return replace(index, twins=twins, copies=copies)


def _backend(config: Config, stages: Stages) -> Backend:
    """The class of the setting `index.backend`. Its packages are imported only if it is used."""
    if not config.index.is_shared:
        return MemoryBackend(stages)
    from .stored_build import StoredBackend

    return StoredBackend(config, stages)


def _trust(settings: TrustConfig) -> Trust | None:
    """The `Trust` of a Config, imported only if something is scanned or pinned."""
    if not settings.scan and settings.pins is None and not settings.approved:
        return None
    from ..trust import Trust

    return Trust(scans=settings.scan, pins=settings.pins, approved=settings.approved)
