"""One build of one catalog version in PostgreSQL: writes what changed, encodes what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..catalog.catalog import differing
from ..catalog.tool_document import embedding_text
from ..config import Config
from ..errors import ConfigError, StoreError
from ..models.loading import static_encoder
from ..retrieval.backends.tantivy_settings import DEFAULT_BOOSTS
from ..retrieval.catalog_index import DenseStage, Documents, Index
from ..retrieval.example_queries import ExampleQueries, moved_to_queries
from ..retrieval.id_lookup import Names
from ..retrieval.postgres.database import Database
from ..retrieval.postgres.follower import Follower
from ..retrieval.postgres.stored_catalog import StoredCatalog, StoredDocument
from ..retrieval.postgres.stored_search import (
    StoredLexicalIndex,
    StoredRows,
    StoredSearch,
    StoredVectorIndex,
)
from ..retrieval.postgres.stored_vectors import StoredVectors, WaitingText
from ..retrieval.search.static_retriever import StaticRetriever
from ..retrieval.store.vectors import Vectors, text_key
from ..retrieval.store.versions import SavedVersion
from ..text import ANALYZER
from .build import TEXTS_A_STEP, Build, CatalogVersion, Progress
from .stages import Stages

if TYPE_CHECKING:
    from weakref import WeakMethod

Floats = NDArray[np.float32]

_POLL_S = 0.1
"""Seconds until a build looks again whether others have encoded its texts."""
_STEP = 1_024
"""Texts that get static vectors at once."""


@dataclass(frozen=True, slots=True)
class StoredNumbers:
    """Where the definitions of a catalog version are in the database.

    Args:
        version: version of the catalog.
        of_tools: tool id to the number of its definition.
    """

    version: int
    of_tools: Mapping[str, int]


class StoredBackend:
    """Keeps catalog versions in PostgreSQL; a `Backend`.

    Has what the builds of one engine share: connections, models in the database, settings.

    Args:
        config: the settings, of `index.backend` "postgres".
        stages: the stages of a process, for their models and rerankers.
    """

    def __init__(self, config: Config, stages: Stages) -> None:
        if config.index.dsn is None:
            raise ConfigError("index.dsn: missing; backend 'postgres' needs a connection string")
        names = {stage for tier in config.tiers.values() for stage in tier.retrievers}
        boosts = {"boosts": DEFAULT_BOOSTS, **config.lexical.part_arguments()}["boosts"]
        self.boosts = {field: boost for field, boost in boosts.items() if boost > 0}
        self.has_lexical = "lexical" in names
        self.has_static = "static" in names
        self.stages = stages
        self.database = Database(config.index.dsn, config.index.tenant)
        self.catalog = StoredCatalog(self.database)
        self.vectors = StoredVectors(self.database)
        self._numbers: dict[str, int] = {}

    def begin(
        self,
        version: CatalogVersion,
        previous: Index | None,
        unfinished: Build | None,  # noqa: ARG002 - the database has what it encoded
        vectors: Vectors | None,  # noqa: ARG002 - and all vectors
    ) -> StoredBuild:
        """Write a version, and begin its build; see `Backend.begin`."""
        return StoredBuild(self, version, previous=previous)

    def begin_saved(
        self,
        version: CatalogVersion,  # noqa: ARG002
        saved: SavedVersion,
        *,
        same_catalog: bool,  # noqa: ARG002
    ) -> StoredBuild:
        """Raises StoreError: the catalog is in the database."""
        raise StoreError(
            f'{saved.folder.parent}: not opened: with `index.backend` "postgres" the catalog is in '
            "the database; use `Engine.connect`"
        )

    def connect(
        self, version_of: Callable[[Catalog], CatalogVersion], previous: Index | None
    ) -> StoredBuild:
        """Begin a build of the catalog in the database; see `Backend.connect`."""
        catalog, numbers = self.read(previous)
        return StoredBuild(self, version_of(catalog), numbers=numbers, previous=previous)

    def has_newer_than(self, index: Index) -> bool:
        """Whether the database has another version of the catalog than an index."""
        search = index.joint_search
        return isinstance(search, StoredSearch) and self.catalog.version() != search.version

    def follow(self, refresh: WeakMethod[Callable[[], bool]]) -> Follower:
        """What calls a method when other engines change the catalog."""
        return Follower(self.database, refresh)

    def save(
        self,
        index: Index,  # noqa: ARG002
        folder: Path,
        settings: Mapping[str, Any],  # noqa: ARG002
        screening: Mapping[str, Any] | None,  # noqa: ARG002
        quarantined: Mapping[str, str] | None,  # noqa: ARG002
    ) -> Path:
        """Raises StoreError: the database has the index."""
        raise StoreError(
            f"{folder}: not saved: the catalog is in PostgreSQL already, see `index.backend`"
        )

    @property
    def has_dense(self) -> bool:
        """Whether a whole index has a dense stage."""
        return self.stages.has_dense

    @property
    def lifts(self) -> bool:
        """Whether static vectors lie in the encoder's space too."""
        return self.stages.models.encoder_is_bundled

    def dense_model(self) -> int:
        """Number of the encoder in the database; loads the encoder unless it is the bundled one."""
        if self.lifts:
            static = static_encoder()
            return self._number(static.teacher_fingerprint, static.teacher_dim)
        encoder = self.stages.models.encoder()
        return self._number(encoder.fingerprint, encoder.dim)

    def static_model(self) -> int:
        """Number of the static vectors in the database.

        They depend on what they are made of: vectors of the encoder, or the texts.
        """
        static = static_encoder()
        if self.has_dense and self.stages.models.encoder_spec == "static":
            return self.dense_model()
        source = f"of {static.teacher_fingerprint}" if self.has_dense and self.lifts else "of texts"
        return self._number(f"{static.fingerprint} {source}", static.dim)

    def models(self) -> list[int]:
        """Numbers of the models whose vectors are searched."""
        models = [self.dense_model()] if self.has_dense else []
        return [*models, self.static_model()] if self.has_static else models

    def _number(self, fingerprint: str, dim: int) -> int:
        if fingerprint not in self._numbers:
            self._numbers[fingerprint] = self.vectors.model(fingerprint, dim)
        return self._numbers[fingerprint]

    def read(self, previous: Index | None = None) -> tuple[Catalog, StoredNumbers]:
        """The catalog in the database, and where its definitions are.

        Args:
            previous: a version whose definitions are not read again.
        """
        known: dict[int, Tool] = {}
        if previous is not None and isinstance(previous.joint_search, StoredSearch):
            known = dict(
                zip(previous.joint_search.rows.numbers.tolist(), previous.built_tools, strict=True)
            )
        stored = self.catalog.read(known)
        known |= {
            number: Tool.from_saved(json.loads(definition))
            for number, definition in stored.definitions.items()
        }
        tools = [known[number] for number in stored.numbers]
        numbers = {tool.id: number for tool, number in zip(tools, stored.numbers, strict=True)}
        return Catalog(tools), StoredNumbers(stored.version, numbers)

    def documents(
        self, tools: Sequence[Tool], queries: Mapping[str, ExampleQueries], catalog: Catalog
    ) -> list[StoredDocument]:
        """Tools as they are written.

        Args:
            tools: some tools of the catalog, in its order.
            queries: example queries of all tools.
            catalog: the catalog.
        """
        server_places = {server: place for place, server in enumerate(catalog.servers)}
        settings = json.dumps([ANALYZER, sorted(self.boosts), bool(queries)]).encode()
        texts = Documents(tuple(tools), tuple(self.boosts), queries)
        stored = []
        for row, tool in enumerate(tools):
            definition = json.dumps(tool.to_saved())
            tool_queries = queries.get(tool.id)
            queries_key = b"" if tool_queries is None else tool_queries.key
            source = hashlib.sha256(settings + queries_key + definition.encode()).digest()[:16]
            stored.append(
                StoredDocument(
                    tool.id,
                    tool.server or "",
                    server_places.get(tool.server or "", 0),
                    row,
                    source,
                    vector_key(tool, tool_queries),
                    definition,
                    partial(texts.__getitem__, row),
                )
            )
        return stored

    def values(self, tool_texts: Sequence[WaitingText], *, encoded: bool) -> dict[int, Floats]:
        """Number of a model to the vectors of texts, shape (n, dim).

        Args:
            tool_texts: texts of tools with their example queries.
            encoded: whether the encoder makes them; otherwise sums of token vectors, as far as they
                lie in the same spaces.
        """
        texts = [text.text for text in tool_texts]
        static = static_encoder()
        if not self.has_dense:
            return {self.static_model(): static.encode(texts)}
        if encoded:
            encoder = self.stages.models.encoder()
            dense = _moved(encoder.encode(texts), tool_texts, partial(encoder.encode, query=True))
        elif self.lifts:
            dense = _moved(
                static.encode_for_teacher(texts),
                tool_texts,
                partial(static.encode_for_teacher, query=True),
            )
        else:
            return {self.static_model(): static.encode(texts)} if self.has_static else {}
        values = {self.dense_model(): dense}
        if self.has_static and self.lifts:
            values[self.static_model()] = static.project(dense, keep_lengths=True)
        return values


class StoredBuild:
    """Makes the index of one catalog version in PostgreSQL; a `Build`.

    Only the servers whose tools differ from those of `previous` are written, so that what other
    engines have written of other servers stays.

    Args:
        stored: the settings, the connections and the models.
        version: what is built.
        numbers: where its definitions are, if the catalog was read from the database. Nothing is
            written then.
        previous: the version that is searched now.

    Attributes:
        version: what is built.
        encoded_count: number of texts that this build encoded, for any tenant.
    """

    def __init__(
        self,
        stored: StoredBackend,
        version: CatalogVersion,
        *,
        numbers: StoredNumbers | None = None,
        previous: Index | None = None,
    ) -> None:
        self.version = version
        self.encoded_count = 0
        self._stored = stored
        self._queries = version.queries
        self._tools = version.catalog.in_id_order
        self._to_encode: int | None = None
        self._numbers = self._write(previous) if numbers is None else numbers
        self._names = Names.of(self._tools) if previous is None else previous.names_of(self._tools)

    @property
    def tools_to_encode(self) -> int:
        """Number of texts to encode, of all tenants."""
        if not self._stored.has_dense:
            return 0
        return self._stored.vectors.waiting(self._stored.dense_model())

    def encode_some(self, progress: Progress | None = None) -> bool:
        """Encode texts that wait in the database; False if no text of this version waits.

        A role that may only read leaves them to others.

        Args:
            progress: called after some texts.

        Raises:
            ModelError: the encoder cannot be loaded, or fails.
            StoreError: the database cannot be reached.
        """
        if not self._stored.has_dense:
            return False
        vectors, model = self._stored.vectors, self._stored.dense_model()
        if self._to_encode is None:
            self._to_encode = vectors.waiting(model)
        if not self._to_encode:
            return False
        count = vectors.encode_waiting(
            model, TEXTS_A_STEP, partial(self._stored.values, encoded=True)
        )
        if not count:
            if not vectors.waiting_of(model, self._stored.catalog.tenant_number()):
                return False
            # Another worker has taken them.
            sleep(_POLL_S)
        self.encoded_count += count
        if progress is not None and count:
            progress(min(self.encoded_count, self._to_encode), self._to_encode)
        return True

    def save_encoded(self, folder: Path) -> None:
        """Nothing to do: the database has what was encoded."""

    def index(self) -> Index:
        """The whole index."""
        index = self.provisional_index()
        if not self._stored.has_dense:
            return index
        stored = self._stored
        search = StoredVectorIndex(self._search, stored.dense_model())
        models = stored.stages.models
        dense = DenseStage(search, models.encoder(), models.encoder_guard)
        return replace(
            index,
            dense=dense,
            encoded_count=self.encoded_count,
            is_provisional=False,
            pending_count=0,
        )

    def provisional_index(self) -> Index:
        """The index without a dense stage; tiers that need one fall back."""
        stored = self._stored
        lexical = StoredLexicalIndex(self._search, stored.boosts) if stored.has_lexical else None
        static = None
        if stored.has_static:
            vectors = StoredVectorIndex(self._search, stored.static_model())
            static = StaticRetriever(static_encoder(), vectors)
        return Index(
            self.version.catalog,
            self._tools,
            self._tools,
            self._names,
            lexical,
            static=static,
            rerankers=stored.stages.make_rerankers(self._tools),
            example_queries=self._queries,
            example_queries_hash=self.version.example_queries_hash,
            is_provisional=stored.has_dense,
            pending_count=len(self._tools) if stored.has_dense else 0,
            joint_search=self._search,
        )

    @cached_property
    def _search(self) -> StoredSearch:
        # The names are in order of row.
        numbers = np.array([self._numbers.of_tools[name] for name in self._names.rows], np.int32)
        stored = self._stored
        return StoredSearch(
            stored.database,
            stored.catalog.tenant_number(),
            StoredRows(numbers),
            boosts=stored.boosts,
            dense_model=stored.dense_model() if stored.has_dense else None,
            static=(static_encoder(), stored.static_model()) if stored.has_static else None,
            vector_count=stored.vectors.count(
                stored.dense_model() if stored.has_dense else stored.static_model()
            )
            if stored.has_dense or stored.has_static
            else 0,
            version=self._numbers.version,
        )

    def _write(self, previous: Index | None) -> StoredNumbers:
        """Write the servers that differ; returns where all definitions are."""
        numbers: dict[str, int] = {}
        version: int | None = None
        servers: set[str] | None = None
        if previous is not None and isinstance(previous.joint_search, StoredSearch):
            version = previous.joint_search.version
            stored_numbers = previous.joint_search.rows.numbers.tolist()
            ids = [tool.id for tool in previous.built_tools]
            numbers = dict(zip(ids, stored_numbers, strict=True))
            if bool(previous.example_queries) == bool(self._queries):
                servers = _changed_servers(
                    previous.built_tools, previous.example_queries, self._tools, self._queries
                )
        tools = [
            tool
            for tool in self.version.catalog
            if servers is None or (tool.server or "") in servers
        ]
        documents = self._stored.documents(tools, self._queries, self.version.catalog)
        self._add_vectors(tools, [document.vector_key for document in documents])
        if servers is None or servers:
            written = self._stored.catalog.write(documents, servers, models=self._stored.models())
            numbers |= written.numbers
            # If others wrote other servers meanwhile, this version lacks their changes.
            if servers is None or written.version - written.changed == version:
                version = written.version
        return StoredNumbers(version or 0, numbers)

    def _add_vectors(self, tools: Sequence[Tool], keys: Sequence[bytes]) -> None:
        """Static vectors for texts without any vector, and their place in the encoder's queue."""
        stored = self._stored
        if not stored.has_dense and not stored.has_static:
            return
        model = stored.dense_model() if stored.has_dense else stored.static_model()
        absent = stored.vectors.absent(model, keys)
        texts = {
            key: WaitingText(key, embedding_text(tool), self._example_texts(tool))
            for key, tool in zip(keys, tools, strict=True)
            if key in absent
        }
        waiting = list(texts.values())
        if stored.has_dense:
            stored.vectors.add_waiting(model, waiting)
        for start in range(0, len(waiting), _STEP):
            some = waiting[start : start + _STEP]
            for target, values in stored.values(some, encoded=False).items():
                stored.vectors.put(
                    target, {text.key: row for text, row in zip(some, values, strict=True)}
                )

    def _example_texts(self, tool: Tool) -> tuple[str, ...]:
        queries = self._queries.get(tool.id)
        return () if queries is None else queries.texts_to_encode


def vector_key(tool: Tool, queries: ExampleQueries | None) -> bytes:
    """Key of a tool's vectors: a hash of its text and its example queries."""
    key = text_key(embedding_text(tool))
    return key if queries is None else hashlib.sha256(key + queries.key).digest()[:16]


def _changed_servers(
    earlier_tools: Sequence[Tool],
    earlier_queries: Mapping[str, ExampleQueries],
    tools: Sequence[Tool],
    queries: Mapping[str, ExampleQueries],
) -> set[str]:
    """Servers of which a tool, or its example queries, differ."""
    was, is_now = differing(earlier_tools, tools)
    earlier = {tool.id: tool for tool in earlier_tools[was]}
    present = {tool.id: tool for tool in tools[is_now]}
    changed = [
        tool
        for tool_id in earlier.keys() | present.keys()
        if earlier.get(tool_id) != present.get(tool_id)
        for tool in (earlier.get(tool_id), present.get(tool_id))
        if tool is not None
    ]
    if earlier_queries or queries:
        changed += [tool for tool in tools if earlier_queries.get(tool.id) != queries.get(tool.id)]
    return {tool.server or "" for tool in changed}


def _moved(
    values: Floats, texts: Sequence[WaitingText], encode_queries: Callable[[Sequence[str]], Floats]
) -> Floats:
    """Vectors of texts; those with example queries moved towards them, shape (n, dim)."""
    rows = [row for row, text in enumerate(texts) if text.queries]
    if not rows:
        return values
    vectors = encode_queries([query for row in rows for query in texts[row].queries])
    ends = np.cumsum([len(texts[row].queries) for row in rows])
    means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])
    values = np.array(values)
    values[rows] = moved_to_queries(values[rows], means)
    return values
