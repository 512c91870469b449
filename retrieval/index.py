"""One version of a catalog, ready to be searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from ..catalog import Catalog, Tool
from ..catalog.document import lexical_document
from ..models import Encoder
from ..text import words
from .change import Change
from .guard import Guard
from .known_requests import KnownRequests
from .learned import Learned
from .names import Names
from .protocols import DenseIndex, LexicalIndex, Retriever
from .request_vectors import RequestVectors
from .retrievers import DenseRetriever, LexicalRetriever
from .run import RerankStage
from .twins import Twins
from .vectors import Vectors

if TYPE_CHECKING:
    from .static import StaticRetriever


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """The dense stage of an index.

    Args:
        index: searches `values`.
        vectors: vectors of the tools.
        values: the same with requests known to belong to tools, and what usage taught; shape
            (n, dim).
        encoder: encoder of the requests.
        guard: runs it; one of its own when absent.
        requests: vectors of these requests, None where there are none.
        pending: number of tools that the encoder has not read yet, or not all of their requests.
        comparable: whether static vectors, which those have meanwhile, compare with the others.
    """

    index: DenseIndex
    vectors: Vectors
    values: NDArray[np.float32]
    encoder: Encoder
    guard: Guard | None = None
    requests: RequestVectors | None = None
    pending: int = 0
    comparable: bool = True


@dataclass(frozen=True, eq=False)
class Index:
    """The tools of a catalog version with the stages built over them.

    A fresh index numbers its rows in order of tool id. In one that was made from another by a
    change, tools that stayed have kept their rows.

    Args:
        catalog: the version.
        tools: its tools in order of row, see `rows_of`.
        names: rows of the tools by id and name.
        lexical: the lexical index, or None when no tier needs it.
        dense: the dense stage, or None when no tier needs it.
        static: the static stage, or None when no tier needs it.
        rerankers: the rerank stages by name.
        requests: tool id to the requests known to belong to the tool, see `Documents`.
        encoded: how many tools had to be encoded to make this index.
        learned: the learned adjustments of the dense index, or None.
        change: change from the version this one was made from, or None.
        missing: stage name to why it could not be made.
        twins: tools that say nearly the same; None where nobody asked for them.
        copies: row of each copy to the rows of its originals, see `Twins.copies`.
    """

    catalog: Catalog
    tools: tuple[Tool, ...]
    names: Names
    lexical: LexicalIndex | None = None
    dense: Dense | None = None
    static: StaticRetriever | None = None
    rerankers: Mapping[str, RerankStage] = field(default_factory=dict)
    requests: Mapping[str, KnownRequests] = field(default_factory=dict)
    encoded: int = 0
    learned: Learned | None = None
    change: Change | None = None
    missing: Mapping[str, Exception] = field(default_factory=dict)
    twins: Twins | None = None
    copies: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @cached_property
    def retrievers(self) -> Mapping[str, Retriever]:
        """The stages that find candidates, by name."""
        found: dict[str, Retriever] = {}
        if self.lexical is not None:
            found["lexical"] = LexicalRetriever(self.lexical)
        if self.static is not None:
            found["static"] = self.static
        if (dense := self.dense) is not None:
            found["dense"] = DenseRetriever(
                dense.encoder,
                dense.index,
                tokens=dense.vectors.tokens is not None,
                guard=dense.guard,
                waits_for=0 if dense.comparable else dense.pending,
            )
        return found

    @cached_property
    def summaries(self) -> tuple[tuple[str, str], ...]:
        """Fingerprint and the user's summary, for each tool that has one among example queries."""
        return tuple(
            (tool.fingerprint, known.summary)
            for tool in self.tools
            if (known := self.requests.get(tool.id)) is not None and known.summary
        )

    @property
    def rows(self) -> Mapping[str, int]:
        """Tool id to row."""
        return self.names.rows

    @property
    def fresh(self) -> bool:
        """Whether it was built as a whole, with rows in order of tool id."""
        return self.names.order is None

    @property
    def pending(self) -> int:
        """Number of tools that have static vectors until the encoder has read them."""
        return 0 if self.dense is None else self.dense.pending

    @property
    def vectors(self) -> Vectors | None:
        """What the encoder made of the tools, or None without a dense stage."""
        return None if self.dense is None else self.dense.vectors

    @property
    def request_vectors(self) -> RequestVectors | None:
        """Vectors of the requests known to belong to the tools, if there are any."""
        return None if self.dense is None else self.dense.requests

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the requests, or None without a dense stage."""
        return None if self.dense is None else self.dense.encoder

    def check_encoder(self) -> None:
        """Return at once if a request can be encoded now.

        Raises:
            ModelError: the encoder is not loaded yet, or has tools to read first.
        """
        if isinstance(dense := self.retrievers.get("dense"), DenseRetriever):
            dense.check()

    def by_id(self, mask: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The rows of a mask in order of tool id, shape (m,)."""
        return self.names.by_id(mask)

    def named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`; failing that, but for letter case."""
        return self.names.named(text)


class Documents(Sequence[Mapping[str, str]]):
    """Field name to raw text for each tool, read from the tool each time it is asked for.

    Where tools have requests, the field `all` of such a tool has them too. That of every other tool
    has each distinct word of its definition twice more: with as many words, it loses less to its
    neighbours (ADR 20).

    Args:
        tools: tools in order of row.
        fields: names of the fields.
        requests: tool id to the requests known to belong to the tool.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        fields: tuple[str, ...],
        requests: Mapping[str, KnownRequests] | None = None,
    ) -> None:
        self._tools = tools
        self._fields = fields
        self._requests = requests or {}

    def __len__(self) -> int:
        return len(self._tools)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> Documents: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, str] | Documents:
        if isinstance(index, slice):
            return Documents(self._tools[index], self._fields, self._requests)
        tool = self._tools[index]
        document = lexical_document(tool, self._fields)
        if self._requests and "all" in document:
            known = self._requests.get(tool.id)
            distinct = " ".join(dict.fromkeys(words(document["all"])))
            document["all"] += f" {distinct} {distinct}" if known is None else f" {known.text}"
        return document


def rows_of(catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a catalog in the order of a fresh index's rows."""
    return tuple(sorted(catalog, key=lambda tool: tool.id))
