"""pydantic-ai's local tool search: token overlap over names and descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .event_loop import EventLoop
from .libraries import library
from .naming import PeerNames

if TYPE_CHECKING:
    from ...catalog import Tool


class PydanticAISearch:
    """The ``search_tools`` function that the `ToolSearch` capability wraps around a toolset.

    It expects keywords chosen by a model; given whole requests, as here, its figures are a lower
    bound. The time covers the call of ``search_tools``, not the listing of the toolset, which an
    agent repeats in every step.
    """

    name = "pydantic-ai"
    depth_free = True

    def __init__(self) -> None:
        self._ai = library("pydantic_ai", self.name)
        self._capabilities = library("pydantic_ai.capabilities", self.name)
        self._toolsets = library("pydantic_ai.toolsets", self.name)
        self._loop = EventLoop()
        self._context = self._ai.RunContext(
            deps=None,
            model=library("pydantic_ai.models.test", self.name).TestModel(),
            usage=self._ai.RunUsage(),
        )

    def index(self, tools: Sequence[Tool]) -> None:
        """Defer every tool; the postings are built on the first search, done here."""
        self._names = PeerNames(tools)
        self._toolset = self._toolsets.ExternalToolset(
            [
                self._ai.ToolDefinition(
                    name=self._names.name(tool.id),
                    description=tool.description,
                    parameters_json_schema=tool.input_schema,
                    defer_loading=True,
                )
                for tool in tools
            ]
        )
        self._searches: dict[int, tuple[Any, Any]] = {}
        self.search(tools[0].name, 10)

    def capability(self, k: int) -> Any:
        """The tool search that finds at most `k` tools."""
        return self._capabilities.ToolSearch(max_results=k)

    def search(self, query: str, k: int) -> list[str]:
        """Rank by the number of distinct words shared with name and description."""
        if k not in self._searches:
            wrapped = self.capability(k).get_wrapper_toolset(self._toolset)
            listed = self._loop.run(wrapped.get_tools(self._context))
            self._searches[k] = (wrapped, listed["search_tools"])
        wrapped, search_tool = self._searches[k]
        call = wrapped.call_tool("search_tools", {"queries": [query]}, self._context, search_tool)
        try:
            answer = self._loop.run(call)
        except self._ai.ModelRetry:  # its answer to a request without a Latin letter or digit
            return []
        return [self._names.tool_id(match["name"]) for match in answer["discovered_tools"]]
