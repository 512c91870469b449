"""One version of a catalog, ready to be searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter, sleep, thread_time
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..catalog.catalog import differing
from ..catalog.tool_document import lexical_document
from ..models import Encoder
from ..text import lower_words
from .backends.protocols import DenseSearch, JointSearch, LexicalSearch, Retriever
from .example_queries import ExampleQueries
from .id_lookup import Names
from .query import Query
from .search.query_run import RerankStage
from .search.retrievers import DenseRetriever, LexicalRetriever
from .search.stage_guard import Guard
from .search.twins import Copies, Twins
from .store.vectors import Vectors

_PAUSE_EVERY, _PAUSE_S = 8, 1e-4
#: A pause behind one searching thread takes a few milliseconds, behind eight forty. What is above
#: `_LONG_PAUSE_S` is at most so many times the CPU time until the next pause.
_LONG_PAUSE_S, _MAX_PAUSED_SHARE = 0.01, 4.0

if TYPE_CHECKING:
    from .search.static_retriever import StaticRetriever


@dataclass(frozen=True, slots=True, eq=False)
class DenseStage:
    """The dense stage of an index.

    Args:
        index: searches the vectors of the tools, as their example queries moved them.
        encoder: encoder of the queries.
        guard: runs the encoder; one of its own when absent.
    """

    index: DenseSearch
    encoder: Encoder
    guard: Guard | None = None


@dataclass(frozen=True, eq=False)
class Index:
    """The tools of a catalog version with the stages built over them; rows in order of tool id.

    A build makes one. `showing` makes one of the same stages that shows a newer catalog.

    Args:
        catalog: the tools that can be found.
        tools: tools by row, as they are shown. A row whose tool was removed since the build keeps
            its last definition; `names` leaves it out.
        built_tools: tools by row, as the stages were built over them.
        names: rows of the tools by id and name.
        lexical: the lexical index, or None when no tier needs it.
        dense: the dense stage; None when no tier needs it, or while a first build has not encoded
            all tools.
        static: the static stage, or None when no tier needs it.
        rerankers: the rerank stages by name.
        example_queries: tool id to the example queries of the tool, see `Documents`.
        example_queries_hash: hash of the rows and pins that decided on `example_queries`.
        vectors: vectors by text; with a dense stage, arranged as `Vectors.of_tools` says.
        encoded_count: how many tools had to be encoded to make this index.
        is_provisional: whether the dense stage is still to come: the first version of an engine
            that answers before its tools are encoded.
        pending_count: number of tools that wait for the next version: all tools of a provisional
            one; otherwise those that are new, and not found yet, or changed.
        missing_stages: stage name to why there is no such stage now.
        twins: tools that say nearly the same; None where nobody asked for them.
        copies: the copies among the tools, and their originals.
        joint_search: searches several stages at once; None where each is searched alone.
    """

    catalog: Catalog
    tools: tuple[Tool, ...]
    built_tools: tuple[Tool, ...]
    names: Names
    lexical: LexicalSearch | None = None
    dense: DenseStage | None = None
    static: StaticRetriever | None = None
    rerankers: Mapping[str, RerankStage] = field(default_factory=dict)
    example_queries: Mapping[str, ExampleQueries] = field(default_factory=dict)
    example_queries_hash: str = ""
    vectors: Vectors | None = None
    encoded_count: int = 0
    is_provisional: bool = False
    pending_count: int = 0
    missing_stages: Mapping[str, Exception] = field(default_factory=dict)
    twins: Twins | None = None
    copies: Copies = field(default_factory=Copies)
    joint_search: JointSearch | None = None

    @cached_property
    def retrievers(self) -> Mapping[str, Retriever]:
        """The stages that find candidates, by name."""
        stages: dict[str, Retriever] = {}
        if self.lexical is not None:
            stages["lexical"] = LexicalRetriever(self.lexical)
        if self.static is not None:
            stages["static"] = self.static
        if (dense := self.dense) is not None:
            stages["dense"] = DenseRetriever(dense.encoder, dense.index, guard=dense.guard)
        return stages

    @cached_property
    def summaries(self) -> tuple[tuple[str, str], ...]:
        """Fingerprint and the user's summary, for each tool that has one among example queries."""
        return tuple(
            (tool.fingerprint, queries.summary)
            for tool in self.built_tools
            if (queries := self.example_queries.get(tool.id)) is not None and queries.summary
        )

    @property
    def rows(self) -> Mapping[str, int]:
        """Tool id to row."""
        return self.names.rows

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the queries, or None without a dense stage."""
        return None if self.dense is None else self.dense.encoder

    @property
    def tool_vectors(self) -> NDArray[np.float32] | None:
        """The encoder's vectors of the tools, shape (n, dim); None without a dense stage."""
        if self.dense is None or self.vectors is None:
            return None
        return self.vectors.of_tools(len(self.built_tools))

    def rows_in_id_order(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of a mask that have a tool, in order of tool id, shape (m,)."""
        return self.names.rows_in_id_order(mask)

    def rows_named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`, or else but for letter case, or as words."""
        return self.names.rows_named(text)

    def rows_spelled_out(self, query: Query, ranked_rows: NDArray[np.int64]) -> Sequence[int]:
        """Permitted rows whose whole name is in a command; see `Names.rows_spelled_out`.

        A copy is not among them where its original is permitted: it stays behind the original,
        however well its server's name fits.
        """
        rows = self.names.rows_spelled_out(query.text, self.tools, ranked_rows, query.allowed)
        return [
            row
            for row in rows
            if not any(
                query.allowed is None or query.allowed[original]
                for original in self.copies.originals.get(row, ())
            )
        ]

    def names_of(self, tools: tuple[Tool, ...]) -> Names:
        """The names of a version with these tools by row.

        The same object for the same tools, so that rules compiled over it are used again.
        """
        if self.names.present_rows is None and self.tools == tools:
            return self.names
        return self.names.changed(self.tools, tools)

    @property
    def shows_built_tools(self) -> bool:
        """Whether it shows just the tools that its stages were built over."""
        return self.names.present_rows is None and self.tools == self.built_tools

    def is_built_over(self, catalog: Catalog) -> bool:
        """Whether all stages were built, over just these tools in any order."""
        whole = not self.is_provisional and len(catalog) == len(self.built_tools)
        return whole and catalog.in_id_order == self.built_tools

    def showing(self, catalog: Catalog) -> Index:
        """The same stages over a newer catalog, until the next one is built.

        A removed tool is not found any more. A changed tool is found by its old words and shown as
        it is now. A new tool is not found yet.
        """
        if catalog is self.catalog:
            return self
        rows = catalog.in_id_order
        was, is_now = differing(self.tools, rows)
        newest = {tool.id: tool for tool in rows[is_now]}
        changed_rows = range(len(self.tools))[was]
        tools = list(self.tools)
        present = np.ones(len(tools), np.bool_)
        for row in changed_rows:
            present[row] = tools[row].id in newest
            tools[row] = newest.get(tools[row].id, tools[row])
        new_ids = newest.keys() - {tools[row].id for row in changed_rows}
        shown = tuple(catalog)
        if new_ids:
            shown = tuple(tool for tool in catalog if tool.id not in new_ids)
        if shown == tuple(self.catalog):
            catalog_shown = self.catalog
        else:
            catalog_shown = catalog if len(shown) == len(catalog) else Catalog(shown)
        names = self.names
        # Rules compiled over a version are kept by its names: a changed definition needs new ones.
        has_changed = any(tools[row] is not self.tools[row] for row in changed_rows)
        if has_changed or not present.all() or names.present_rows is not None:
            names = names.changed(self.tools, tools, None if present.all() else present)
        was, is_now = differing(self.built_tools, rows)
        built = {tool.id: tool for tool in self.built_tools[was]}
        waiting = sum(built.get(tool.id) != tool for tool in rows[is_now])
        return replace(
            self,
            catalog=catalog_shown,
            tools=tuple(tools),
            names=names,
            pending_count=len(catalog) if self.is_provisional else waiting,
        )


class Documents(Sequence[Mapping[str, str]]):
    """Field name to raw text for each tool, read from the tool each time it is asked for.

    Where tools have example queries, the field `all` of such a tool has them too. That of every
    other tool has each distinct word of its definition twice more: with as many words, it loses
    less to its neighbours (ADR 20).

    Args:
        tools: tools in order of row.
        fields: names of the fields.
        example_queries: tool id to the example queries of the tool.
        pauses: whether to let other threads run after every few documents. Otherwise a search
            waits 5 ms each time that it needs the interpreter lock. If a pause lasts long, because
            many threads search, more documents follow before the next one.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        fields: tuple[str, ...],
        example_queries: Mapping[str, ExampleQueries] | None = None,
        *,
        pauses: bool = False,
    ) -> None:
        self._pauses = pauses
        self._next_pause_s = 0.0
        self._tools = tools
        self._fields = fields
        self._example_queries = example_queries or {}

    def __len__(self) -> int:
        return len(self._tools)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Documents: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Documents:
        if isinstance(index, slice):
            return Documents(self._tools[index], self._fields, self._example_queries)
        if self._pauses and index % _PAUSE_EVERY == 0:
            self._pause()
        tool = self._tools[index]
        document = lexical_document(tool, self._fields)
        if self._example_queries and "all" in document:
            queries = self._example_queries.get(tool.id)
            if queries is None:
                distinct = " ".join(dict.fromkeys(lower_words(document["all"])))
                document["all"] += f" {distinct} {distinct}"
            else:
                document["all"] += f" {queries.text}"
        return document

    def _pause(self) -> None:
        """Let other threads run, unless the last pause was long and the work since then short."""
        if thread_time() >= self._next_pause_s:
            start_s = perf_counter()
            sleep(_PAUSE_S)
            excess_s = perf_counter() - start_s - _LONG_PAUSE_S
            if excess_s > 0:
                self._next_pause_s = thread_time() + excess_s / _MAX_PAUSED_SHARE
