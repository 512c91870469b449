"""One version of a catalog, ready to be searched."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from ..catalog import Catalog, Tool
from ..catalog.document import lexical_document
from ..models import Encoder
from .learned import Learned
from .protocols import DenseIndex, LexicalIndex, Retriever
from .retrievers import DenseRetriever, LexicalRetriever
from .run import RerankStage
from .vectors import Vectors


class Index:
    """The tools of a catalog version with the stages built over them; never changed once made.

    Rows are numbered in order of tool id, so that ordering by row breaks ties by id.

    Args:
        catalog: the version.
        tools: its tools in order of row, see `rows_of`.
        lexical: the lexical index, or None when no tier needs it.
        dense: the dense index with the encoder's vectors and the encoder, or None when no tier
            needs them.
        rerankers: the rerank stages by name.
        encoded: how many tools had to be encoded to make this index.
        learned: what usage taught, which the dense index was built with; or None.
    """

    def __init__(
        self,
        catalog: Catalog,
        tools: tuple[Tool, ...],
        lexical: LexicalIndex | None,
        dense: tuple[DenseIndex, Vectors, Encoder] | None,
        rerankers: Mapping[str, RerankStage],
        encoded: int = 0,
        learned: Learned | None = None,
    ) -> None:
        self.catalog = catalog
        self.tools = tools
        self.rows: Mapping[str, int] = {tool.id: row for row, tool in enumerate(tools)}
        self.rerankers = rerankers
        self.lexical = lexical
        self.dense = dense[0] if dense else None
        self.vectors = dense[1] if dense else None
        self.encoder = dense[2] if dense else None
        self.encoded = encoded
        self.learned = learned
        #: Stage name to the factor of its scores in a fusion, where usage taught one.
        self.scales: Mapping[str, float] = (
            {"lexical": learned.lexical} if learned and learned.lexical != 1 else {}
        )
        retrievers: dict[str, Retriever] = {}
        if lexical is not None:
            retrievers["lexical"] = LexicalRetriever(lexical)
        if dense is not None:
            retrievers["dense"] = DenseRetriever(
                dense[2], dense[0], tokens=dense[1].tokens is not None
            )
        self.retrievers: Mapping[str, Retriever] = retrievers
        self._named: dict[str, list[int]] = {}
        self._folded: dict[str, list[int]] = {}
        for row, tool in enumerate(self.tools):
            for name in {tool.id, tool.name}:
                self._named.setdefault(name, []).append(row)
            for name in {tool.id.casefold(), tool.name.casefold()}:
                self._folded.setdefault(name, []).append(row)

    def named(self, text: str) -> Sequence[int]:
        """Rows whose id or name is exactly `text`; failing that, but for letter case."""
        # Names and ids are held in NFC, see `Tool`.
        name = unicodedata.normalize("NFC", text).strip().strip("`'\"")
        return self._named.get(name) or self._folded.get(name.casefold()) or ()


def rows_of(catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a catalog in the order of an index's rows."""
    return tuple(sorted(catalog, key=lambda tool: tool.id))


def build_lexical(
    backend: Any,
    tools: Sequence[Tool],
    boosts: Mapping[str, float],
    **settings: Any,
) -> LexicalIndex:
    """Index the tools' fields that have a boost; `settings` are further ones of the backend."""
    fields = tuple(field for field, boost in boosts.items() if boost > 0)
    documents = [lexical_document(tool, fields) for tool in tools]
    index: LexicalIndex = backend.build(documents, boosts, **settings)
    return index
