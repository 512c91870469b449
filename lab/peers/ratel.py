"""Ratel's tool catalog: BM25, dense, and both fused, in its Rust engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from .event_loop import EventLoop
from .libraries import library, stock_minilm
from .naming import PeerNames

if TYPE_CHECKING:
    from ...catalog import Tool


def _not_run(_arguments: dict[str, Any]) -> None:
    """Stand behind a tool that is only searched for."""


class _Ratel:
    """A `ToolCatalog` of one retrieval method."""

    name: ClassVar[str]
    method: ClassVar[str]
    depth_free = True

    def __init__(self) -> None:
        self._ratel = library("ratel_ai", self.name)
        self._embedding = self._embedding_source()
        self._loop = EventLoop()

    def _embedding_source(self) -> dict[str, str] | None:
        return {"local": str(stock_minilm(self.name)), "pooling": "mean"}

    def index(self, tools: Sequence[Tool]) -> None:
        """Register every tool, which also embeds it where the method needs that.

        One at a time: a batch is padded to its longest text and takes several times as long.
        """
        self._names = PeerNames(tools)
        self._catalog = self._ratel.ToolCatalog(method=self.method, embedding=self._embedding)
        self._loop.run(self._register(tools))

    async def _register(self, tools: Sequence[Tool]) -> None:
        for tool in tools:
            await self._catalog.register(
                self._ratel.ExecutableTool(
                    id=tool.id,
                    name=self._names.name(tool.id),
                    description=tool.description,
                    input_schema=tool.input_schema,
                    execute=_not_run,
                )
            )

    def search(self, query: str, k: int) -> list[str]:
        """Rank with the catalog's method."""
        return [hit.tool_id for hit in self._loop.run(self._catalog.search_async(query, k))]


class RatelBm25(_Ratel):
    """Ratel's default: BM25 over name, description and schema."""

    name = "ratel-bm25"
    method = "bm25"

    def _embedding_source(self) -> None:
        return None

    def search(self, query: str, k: int) -> list[str]:
        """Rank with the synchronous search, which only BM25 has."""
        return [hit.tool_id for hit in self._catalog.search(query, k)]


class RatelSemantic(_Ratel):
    """Ratel's dense search on the stock all-MiniLM-L6-v2."""

    name = "ratel-semantic"
    method = "semantic"


class RatelHybrid(_Ratel):
    """Ratel's reciprocal rank fusion of both, on the stock all-MiniLM-L6-v2.

    How many candidates each side gives to the fusion follows from the number asked for.
    """

    name = "ratel-hybrid"
    method = "hybrid"
    depth_free = False
