"""Catalog versions in the memory of this process: encodes what is new, then makes the stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..catalog.tool_document import embedding_text
from ..errors import ConfigError
from ..models import Encoder
from ..processes import paused_gc
from ..retrieval.backends.protocols import LexicalSearch
from ..retrieval.catalog_index import Index
from ..retrieval.example_queries import ExampleQueries, moved_to_queries
from ..retrieval.id_lookup import Names
from ..retrieval.store.vectors import MOVED_KEY, Vectors, text_key
from ..retrieval.store.versions import SavedVersion, save
from .background import at_low_priority
from .build import TEXTS_A_STEP, Build, CatalogVersion, Progress
from .stages import Stages, rows_with_queries

if TYPE_CHECKING:
    from weakref import WeakMethod


class MemoryBackend:
    """Keeps catalog versions in this process, and saves them to folders; a `Backend`.

    Args:
        stages: builds the stages.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def begin(
        self,
        version: CatalogVersion,
        previous: Index | None,
        unfinished: Build | None,
        vectors: Vectors | None,
    ) -> MemoryBuild:
        """Begin the build of a version; see `Backend.begin`."""
        if isinstance(unfinished, MemoryBuild):
            vectors = unfinished.vectors_so_far()
        if vectors is None and previous is not None:
            vectors = previous.vectors
        return MemoryBuild(self._stages, version, earlier_vectors=vectors, previous=previous)

    def begin_saved(
        self, version: CatalogVersion, saved: SavedVersion, *, same_catalog: bool
    ) -> MemoryBuild:
        """Begin a build from a saved index; see `Backend.begin_saved`."""
        lexical = dense_folder = None
        arranged = False
        if same_catalog and version.queries == saved.example_queries:
            settings = self._stages.settings()
            if saved.settings.get("lexical") == settings.get("lexical"):
                lexical = self._stages.load_lexical(saved.folder / "lexical")
            arranged = saved.has_dense and saved.vectors is not None
            if arranged and saved.settings.get("dense") == settings.get("dense"):
                dense_folder = saved.folder / "dense"
        return MemoryBuild(
            self._stages,
            version,
            earlier_vectors=saved.vectors,
            arranged=arranged,
            lexical=lexical,
            dense_folder=dense_folder,
        )

    def connect(
        self,
        version_of: Callable[[Catalog], CatalogVersion],  # noqa: ARG002
        previous: Index | None,  # noqa: ARG002
    ) -> MemoryBuild:
        """Raises ConfigError: no other engine writes this catalog."""
        raise ConfigError('index.backend: to connect, it must be "postgres"')

    def has_newer_than(self, index: Index) -> bool:  # noqa: ARG002
        """False: no other engine writes this catalog."""
        return False

    def follow(self, refresh: WeakMethod[Callable[[], bool]]) -> None:
        """None: no other engine changes this catalog."""

    def save(
        self,
        index: Index,
        folder: Path,
        settings: Mapping[str, Any],
        screening: Mapping[str, Any] | None,
        quarantined: Mapping[str, str] | None,
    ) -> Path:
        """Write an index as the new current version of a folder; see `Backend.save`."""
        return save(
            index,
            folder,
            {**self._stages.settings(), **settings},
            screening,
            quarantined,
            lexical=partial(self._stages.build_lexical, index.built_tools, index.example_queries),
        )


class MemoryBuild:
    """Makes the index of one catalog version in memory; a `Build`.

    Texts with a vector are not encoded.

    Args:
        stages: builds the stages.
        version: what is built.
        earlier_vectors: vectors of texts that were encoded before, of any encoder.
        arranged: whether `earlier_vectors` is of just these tools and queries, see
            `Vectors.of_tools`.
        previous: the version that is searched now; its lexical stage is used again if it was built
            over the same tools. Encoding then gives way to searches.
        lexical: the lexical stage, if it was saved.
        dense_folder: folder of the saved dense stage, for the case that nothing has to be encoded.

    Attributes:
        version: what is built.
        encoded_count: number of texts of tools that were encoded.
    """

    def __init__(
        self,
        stages: Stages,
        version: CatalogVersion,
        *,
        earlier_vectors: Vectors | None = None,
        arranged: bool = False,
        previous: Index | None = None,
        lexical: LexicalSearch | None = None,
        dense_folder: Path | None = None,
    ) -> None:
        self.version = version
        self.encoded_count = 0
        self._stages = stages
        self._tools = version.catalog.in_id_order
        self._queries = version.queries
        self._beside_searches = previous is not None and bool(previous.built_tools)
        self._lexical = lexical
        self._dense_folder = dense_folder
        self._names = Names.of(self._tools) if previous is None else previous.names_of(self._tools)
        if (
            previous is not None
            and previous.built_tools == self._tools
            and previous.example_queries == version.queries
        ):
            self._lexical = previous.lexical
        self._earlier_vectors = earlier_vectors
        self._is_arranged = arranged
        self._keys: list[bytes] = []
        if stages.has_dense:
            self._keys = (
                earlier_vectors.keys_of_tools(len(self._tools))
                if earlier_vectors is not None and arranged
                else _tool_keys(self._tools, previous)
            )
        self._added: list[Vectors] = []
        self._pending: _PendingTexts | None = None

    @property
    def tools_to_encode(self) -> int:
        """Number of tools to encode; all of them until the encoder is loaded."""
        if not self._stages.has_dense:
            return 0
        return len(self._tools) if self._pending is None else len(self._pending.rows)

    def encode_some(self, progress: Progress | None = None) -> bool:
        """Encode the next texts; False if there were none left.

        Args:
            progress: called after each text of a tool.

        Raises:
            ModelError: the encoder cannot be loaded, or fails.
            MissingExtraError: an optional dependency of the encoder is not installed.
        """
        if not self._stages.has_dense:
            return False
        encoder = self._stages.models.encoder()
        if self._pending is None:
            self._pending = self._find_pending(encoder)
        rows, tool_ids = self._pending.rows[:TEXTS_A_STEP], self._pending.tool_ids[:TEXTS_A_STEP]
        if rows:
            texts = [embedding_text(self._tools[row]) for row in rows]
            report_progress = self._progress_reporter(progress)
            if self._beside_searches:
                values = at_low_priority(
                    lambda report: encoder.encode(texts, progress=report), report_progress
                )
            else:
                values = encoder.encode(texts, progress=report_progress)
            keys = tuple(self._keys[row] for row in rows)
            del self._pending.rows[: len(rows)]
            self.encoded_count += len(rows)
        elif tool_ids:
            values = _encode_means(encoder, [self._queries[tool_id] for tool_id in tool_ids])
            keys = tuple(self._queries[tool_id].key for tool_id in tool_ids)
            del self._pending.tool_ids[: len(tool_ids)]
        else:
            return False
        self._added.append(Vectors(values, keys, encoder.fingerprint))
        return True

    def save_encoded(self, folder: Path) -> None:
        """Append the vectors of the last step to those of the version in a folder."""
        self._added[-1].append(folder)

    @paused_gc()
    def index(self) -> Index:
        """The whole index. Every text must have been encoded."""
        index = self._index_without_vectors()
        if self._stages.has_dense:
            vectors = self._arrange_vectors()
            folder = self._dense_folder if vectors is self._earlier_vectors else None
            if folder is not None and not folder.is_dir():
                folder = None  # a writer has removed the version meanwhile
            dense = self._stages.make_dense(self._tools, self._queries, vectors, folder)
            index = replace(index, dense=dense, vectors=vectors)
        static = self._stages.make_static(self._tools, self._queries, index.vectors)
        return replace(index, static=static, encoded_count=self.encoded_count)

    @paused_gc()
    def provisional_index(self) -> Index:
        """The index without a dense stage; tiers that need one fall back."""
        index = self._index_without_vectors()
        if not self._stages.has_dense:
            return self.index()
        self._lexical, vectors = index.lexical, self.vectors_so_far()
        if self._is_arranged:
            static = self._stages.make_static(self._tools, self._queries, vectors)
        else:
            static = self._stages.make_first_static(self._tools, self._queries, vectors)
        return replace(
            index,
            static=static,
            vectors=vectors,
            is_provisional=True,
            pending_count=len(self._tools),
        )

    def vectors_so_far(self) -> Vectors | None:
        """All vectors of texts, the earlier ones and those of this build, for another build."""
        if not self._added:
            return self._earlier_vectors
        model = self._added[0].encoder_fingerprint
        if self._earlier_vectors is None or self._earlier_vectors.encoder_fingerprint != model:
            return Vectors.joined(self._added)
        return Vectors.joined([self._earlier_vectors, *self._added])

    def _index_without_vectors(self) -> Index:
        lexical = self._lexical
        if lexical is None:
            lexical = self._stages.build_lexical(
                self._tools, self._queries, pauses=self._beside_searches
            )
        return Index(
            self.version.catalog,
            self._tools,
            self._tools,
            self._names,
            lexical,
            rerankers=self._stages.make_rerankers(self._tools),
            example_queries=self._queries,
            example_queries_hash=self.version.example_queries_hash,
        )

    def _find_pending(self, encoder: Encoder) -> _PendingTexts:
        """The texts without a vector; equal texts once.

        Vectors of another encoder are dropped. Means that were saved with example queries are added
        to the vectors of this build.
        """
        if (
            self._earlier_vectors is not None
            and self._earlier_vectors.encoder_fingerprint != encoder.fingerprint
        ):
            self._earlier_vectors, self._is_arranged = None, False
        if self._is_arranged:
            return _PendingTexts([], [])
        keys_with_vector = (
            set() if self._earlier_vectors is None else set(self._earlier_vectors.rows)
        )
        pending = _PendingTexts([], [])
        for row, key in enumerate(self._keys):
            if key not in keys_with_vector:
                keys_with_vector.add(key)
                pending.rows.append(row)
        saved_means = []
        for tool in self._tools:
            queries = self._queries.get(tool.id)
            if queries is None or queries.key in keys_with_vector:
                continue
            keys_with_vector.add(queries.key)
            if queries.mean is not None and queries.mean.encoder_fingerprint == encoder.fingerprint:
                saved_means.append((queries.key, queries.mean.values))
            else:
                pending.tool_ids.append(tool.id)
        if saved_means:
            values = np.stack([mean for _, mean in saved_means]).astype(np.float32)
            keys = tuple(key for key, _ in saved_means)
            self._added.append(Vectors(values, keys, encoder.fingerprint))
        self._to_encode = len(pending.rows)
        return pending

    def _arrange_vectors(self) -> Vectors:
        """The vectors of the index, see `Vectors.of_tools`."""
        if self._earlier_vectors is not None and self._is_arranged:
            return self._earlier_vectors
        encoder = self._stages.models.encoder()
        moved_rows = rows_with_queries(self._tools, self._queries)
        mean_keys = [self._queries[self._tools[row].id].key for row in moved_rows.tolist()]
        moved_keys = [self._keys[row] for row in moved_rows.tolist()]
        parts = list(self._added)
        if self._earlier_vectors is not None:
            parts.insert(0, self._earlier_vectors)
        values = _vectors_by_key(parts, [*self._keys, *mean_keys, *moved_keys], encoder.dim)
        means_start = len(self._tools)
        means_end = means_start + len(moved_rows)
        values[moved_rows] = moved_to_queries(values[means_end:], values[means_start:means_end])
        tool_keys = list(self._keys)
        for row in moved_rows.tolist():
            tool_keys[row] = MOVED_KEY
        return Vectors(values, (*tool_keys, *mean_keys, *moved_keys), encoder.fingerprint)

    def _progress_reporter(self, progress: Progress | None) -> Callable[[int], None]:
        """Progress as an encoder reports it, made into (texts encoded, texts to encode)."""
        encoded, total = self.encoded_count, self._to_encode

        def report(further: int) -> None:
            nonlocal encoded
            encoded += further
            if progress is not None:
                progress(encoded, total)

        return report


class _PendingTexts(NamedTuple):
    """Texts that are still to be encoded.

    Attributes:
        rows: rows of the tools whose own text has no vector.
        tool_ids: ids of the tools whose example queries have no mean vector.
    """

    rows: list[int]
    tool_ids: list[str]


def _vectors_by_key(
    parts: Sequence[Vectors], keys: Sequence[bytes], dim: int
) -> NDArray[np.float32]:
    """The vector of each key, shape (len(keys), dim). Of several parts with a key the last counts.

    Args:
        parts: together have every key.
        keys: hashes of texts, with repetitions.
        dim: length of a vector.
    """
    part_and_row = {
        key: (number, row) for number, part in enumerate(parts) for key, row in part.rows.items()
    }
    sources = np.array([part_and_row[key] for key in keys], np.int64).reshape(-1, 2)
    values = np.empty((len(keys), dim), np.float32)
    for number, part in enumerate(parts):
        places = np.flatnonzero(sources[:, 0] == number)
        values[places] = part.values[sources[places, 1]]
    return values


def _tool_keys(tools: Sequence[Tool], previous: Index | None) -> list[bytes]:
    """Hash of the text of each tool; taken from the previous version for tools that it has."""
    earlier_keys: dict[int, bytes] = {}
    if previous is not None and previous.dense is not None and previous.vectors is not None:
        tools_and_keys = zip(map(id, previous.built_tools), previous.vectors.keys, strict=False)
        earlier_keys = {tool: key for tool, key in tools_and_keys if key != MOVED_KEY}
    return [earlier_keys.get(id(tool)) or text_key(embedding_text(tool)) for tool in tools]


def _encode_means(
    encoder: Encoder, queries_of_tools: Sequence[ExampleQueries]
) -> NDArray[np.float32]:
    """The mean vector of the queries of each tool, shape (m, dim)."""
    texts = [text for queries in queries_of_tools for text in queries.texts_to_encode]
    ends = np.cumsum([len(queries.texts_to_encode) for queries in queries_of_tools])
    vectors = encoder.encode(texts, query=True)
    return np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])
