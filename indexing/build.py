"""One build of one catalog version: encodes what is new, then makes the stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..catalog.tool_document import embedding_text
from ..models import Encoder
from ..processes import paused_gc
from ..retrieval import LexicalIndex
from ..retrieval.catalog_index import Index, rows_of
from ..retrieval.example_queries import ExampleQueries, moved_to_queries
from ..retrieval.id_lookup import Names
from ..retrieval.store.vectors import MOVED, Vectors, text_key
from ..retrieval.usage import Learned
from .background import at_low_priority
from .stages import Stages, rows_with_queries

Progress = Callable[[int, int], None]
"""Called with (tools encoded, tools to encode)."""

CHUNK = 64
"""Texts that are encoded in one step: a background build is stopped, and saved, between them."""


class Build:
    """Makes the index of one catalog version. Texts with a known vector are not encoded.

    `encode_some` is called until nothing is left to encode, then `index`. `provisional_index` gives
    a version without a dense stage at once.

    Args:
        stages: builds the stages.
        catalog: the version.
        queries: tool id to example queries.
        known: vectors of texts that were encoded before, of any encoder.
        arranged: whether `known` is of just these tools and queries, see `Vectors.of_tools`.
        before: the version that is searched now; its lexical stage is used again if it was built
            over the same tools. Encoding then gives way to searches.
        lexical: the lexical stage, if it was saved.
        dense_folder: folder of the saved dense stage, for the case that nothing has to be encoded.
        learned: what usage taught; left out of an index with another encoder.

    Attributes:
        catalog: the version.
        encoded: number of texts of tools that were encoded.
        learned: what usage taught; may be replaced before the build ends.
    """

    def __init__(
        self,
        stages: Stages,
        catalog: Catalog,
        queries: Mapping[str, ExampleQueries],
        *,
        known: Vectors | None = None,
        arranged: bool = False,
        before: Index | None = None,
        lexical: LexicalIndex | None = None,
        dense_folder: Path | None = None,
        learned: Learned | None = None,
    ) -> None:
        self.catalog = catalog
        self.encoded = 0
        self._stages = stages
        self._tools = rows_of(catalog)
        self._queries = queries
        self._beside_searches = before is not None and bool(before.built)
        self._lexical = lexical
        self._dense_folder = dense_folder
        self.learned = self._saved_learned = learned
        self._names = Names.of(self._tools)
        if before is not None and before.built == self._tools:
            if before.tools == self._tools and before.names.present is None:
                # Rules compiled over it are used again.
                self._names = before.names
            if before.example_queries == queries:
                self._lexical = before.lexical
        self._known = known
        self._is_arranged = arranged
        self._keys: list[bytes] = []
        if stages.has_dense:
            self._keys = (
                known.keys_of_tools(len(self._tools))
                if known is not None and arranged
                else _tool_keys(self._tools, before)
            )
        self._added: list[Vectors] = []
        self._left: _Texts | None = None

    @property
    def remaining(self) -> int:
        """Number of tools to encode; all of them until the encoder is loaded."""
        if not self._stages.has_dense:
            return 0
        return len(self._tools) if self._left is None else len(self._left.tools)

    def encode_some(self, progress: Progress | None = None) -> Vectors | None:
        """Encode the next texts; None if there are none left.

        Args:
            progress: called after each text of a tool.

        Raises:
            ModelError: the encoder cannot be loaded, or fails.
            MissingExtraError: an optional dependency of the encoder is not installed.
        """
        if not self._stages.has_dense:
            return None
        encoder = self._stages.models.encoder()
        if self._left is None:
            self._left = self._unknown(encoder)
        tools, asked = self._left.tools[:CHUNK], self._left.queries[:CHUNK]
        if tools:
            texts = [embedding_text(self._tools[row]) for row in tools]
            advance = self._advance(progress)
            if self._beside_searches:
                values = at_low_priority(
                    lambda report: encoder.encode(texts, progress=report), advance
                )
            else:
                values = encoder.encode(texts, progress=advance)
            keys = tuple(self._keys[row] for row in tools)
            del self._left.tools[: len(tools)]
            self.encoded += len(tools)
        elif asked:
            values = _means(encoder, [self._queries[tool_id] for tool_id in asked])
            keys = tuple(self._queries[tool_id].key for tool_id in asked)
            del self._left.queries[: len(asked)]
        else:
            return None
        added = Vectors(values, keys, encoder.fingerprint)
        self._added.append(added)
        return added

    @paused_gc()
    def index(self) -> Index:
        """The whole index. Every text must have been encoded."""
        index, learned = self._base(), self.learned
        if self._stages.has_dense:
            vectors = self._arranged()
            same = vectors is self._known
            if learned is not None and learned.model != vectors.model:
                learned = None
            folder = self._dense_folder if same and learned is self._saved_learned else None
            if folder is not None and not folder.is_dir():
                folder = None  # a writer has removed the version meanwhile
            dense = self._stages.dense(self._tools, self._queries, vectors, learned, folder)
            index = replace(index, dense=dense, vectors=vectors, learned=learned)
        static = self._stages.static(self._tools, self._queries, index.vectors, index.learned)
        return replace(index, static=static, encoded=self.encoded)

    @paused_gc()
    def provisional_index(self) -> Index:
        """The index without a dense stage; tiers that need one fall back."""
        index = self._base()
        if not self._stages.has_dense:
            return self.index()
        self._lexical, known = index.lexical, self.known()
        if self._is_arranged:
            static = self._stages.static(self._tools, self._queries, known, self.learned)
        else:
            static = self._stages.first_static(self._tools, self._queries, known)
        return replace(
            index,
            static=static,
            vectors=known,
            learned=self.learned,
            provisional=True,
            pending=len(self._tools),
        )

    def known(self) -> Vectors | None:
        """All vectors that are known now, for another build."""
        if not self._added:
            return self._known
        model = self._added[0].model
        earlier = [] if self._known is None or self._known.model != model else [self._known]
        return Vectors.joined([*earlier, *self._added])

    def _base(self) -> Index:
        lexical = self._lexical
        if lexical is None:
            lexical = self._stages.lexical(self._tools, self._queries, pauses=self._beside_searches)
        return Index(
            self.catalog,
            self._tools,
            self._tools,
            self._names,
            lexical,
            rerankers=self._stages.rerankers(self._tools),
            example_queries=self._queries,
        )

    def _unknown(self, encoder: Encoder) -> _Texts:
        """The texts without a vector; equal texts once."""
        if self._known is not None and self._known.model != encoder.fingerprint:
            self._known, self._is_arranged = None, False
        if self._is_arranged:
            return _Texts([], [])
        there = set() if self._known is None else set(self._known.rows)
        left = _Texts([], [])
        for row, key in enumerate(self._keys):
            if key not in there:
                there.add(key)
                left.tools.append(row)
        means = []
        for tool in self._tools:
            queries = self._queries.get(tool.id)
            if queries is None or queries.key in there:
                continue
            there.add(queries.key)
            if queries.mean is not None and queries.mean.model == encoder.fingerprint:
                means.append((queries.key, queries.mean.values))
            else:
                left.queries.append(tool.id)
        if means:
            values = np.stack([mean for _, mean in means]).astype(np.float32)
            keys = tuple(key for key, _ in means)
            self._added.append(Vectors(values, keys, encoder.fingerprint))
        self._to_encode = len(left.tools)
        return left

    def _arranged(self) -> Vectors:
        """The vectors of the index, see `Vectors.of_tools`."""
        if self._known is not None and self._is_arranged:
            return self._known
        encoder, count = self._stages.models.encoder(), len(self._tools)
        moved = rows_with_queries(self._tools, self._queries)
        means = [self._queries[self._tools[row].id].key for row in moved.tolist()]
        originals = [self._keys[row] for row in moved.tolist()]
        shown = list(self._keys)
        for row in moved.tolist():
            shown[row] = MOVED
        keys = (*shown, *means, *originals)
        parts = [*([] if self._known is None else [self._known]), *self._added]
        places = {
            key: (number, row)
            for number, part in enumerate(parts)
            for key, row in part.rows.items()
        }
        wanted = (*self._keys, *means, *originals)
        sources = np.array([places[key] for key in wanted], np.int64).reshape(-1, 2)
        values = np.empty((len(wanted), encoder.dim), np.float32)
        for number, part in enumerate(parts):
            rows = np.flatnonzero(sources[:, 0] == number)
            values[rows] = part.values[sources[rows, 1]]
        ends = count, count + len(moved)
        values[moved] = moved_to_queries(values[ends[1] :], values[ends[0] : ends[1]])
        return Vectors(values, keys, encoder.fingerprint)

    def _advance(self, progress: Progress | None) -> Callable[[int], None]:
        """Progress as an encoder reports it, made into (texts encoded, texts to encode)."""
        done, total = self.encoded, self._to_encode

        def advance(further: int) -> None:
            nonlocal done
            done += further
            if progress is not None:
                progress(done, total)

        return advance


class _Texts:
    """What is left to encode: rows of tools, and ids of tools with example queries."""

    def __init__(self, tools: list[int], queries: list[str]) -> None:
        self.tools = tools
        self.queries = queries


def _tool_keys(tools: Sequence[Tool], before: Index | None) -> list[bytes]:
    """Hash of the text of each tool; taken from the version before for tools that it has."""
    keys: dict[int, bytes] = {}
    if before is not None and before.dense is not None and before.vectors is not None:
        known = zip(map(id, before.built), before.vectors.keys, strict=False)
        keys = {tool: key for tool, key in known if key != MOVED}
    return [keys.get(id(tool)) or text_key(embedding_text(tool)) for tool in tools]


def _means(encoder: Encoder, asked: Sequence[ExampleQueries]) -> NDArray[np.float32]:
    """The mean vector of the queries of each tool, shape (m, dim)."""
    texts = [text for queries in asked for text in queries.to_encode]
    ends = np.cumsum([len(queries.to_encode) for queries in asked])
    vectors = encoder.encode(texts, query=True)
    return np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])
