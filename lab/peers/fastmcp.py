"""FastMCP's BM25 search transform, asked through the server's own search tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .event_loop import EventLoop
from .libraries import library
from .naming import PeerNames

if TYPE_CHECKING:
    from ...catalog import Tool


class FastMCPSearch:
    """A FastMCP server whose tools hide behind `BM25SearchTransform`.

    A search is one call of the server's ``search_tools``. The answer is rendered as names only
    (the transform's serializer setting), so the time leaves out printing the definitions.
    """

    name = "fastmcp-bm25"
    depth_free = True

    def __init__(self) -> None:
        self._fastmcp = library("fastmcp", self.name)
        self._tools = library("fastmcp.tools", self.name)
        self._transforms = library("fastmcp.server.transforms.search", self.name)
        self._loop = EventLoop()

    def index(self, tools: Sequence[Tool]) -> None:
        """Build the server; the transform builds its index on the first search, done here."""
        self._names = PeerNames(tools)
        self._definitions = [
            self._tools.Tool(
                name=self._names.name(tool.id),
                description=tool.description,
                parameters=tool.input_schema,
            )
            for tool in tools
        ]
        self._servers: dict[int, Any] = {}
        self.search(tools[0].name, 10)

    def search(self, query: str, k: int) -> list[str]:
        """Rank by BM25 over names, descriptions, parameter names and their descriptions."""
        if k not in self._servers:
            self._servers[k] = self._server(k)
        answer = self._loop.run(self._servers[k].call_tool("search_tools", {"query": query}))
        return [self._names.tool_id(name) for name in self.names_in(answer.content[0].text)]

    def transform(self, k: int) -> Any:
        """The transform that finds at most `k` tools."""
        return self._transforms.BM25SearchTransform(
            max_results=k,
            search_result_serializer=lambda tools: " ".join(tool.name for tool in tools),
        )

    def names_in(self, answer: str) -> list[str]:
        """The names in an answer, best first."""
        return answer.split()

    def _server(self, k: int) -> Any:
        server = self._fastmcp.FastMCP("peer")
        for definition in self._definitions:
            server.add_tool(definition)
        server.add_transform(self.transform(k))
        return server
