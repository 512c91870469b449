"""The tools of a LangChain agent, and the engine that finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from langchain_core.tools import BaseTool

from ..catalog import Catalog
from ..engine import Engine
from ..errors import RequestError


class AgentTools:
    """The tools that an agent can run, and the engine that finds them.

    A model calls a tool by its name; the catalog has it under its id. `metadata["server"]` of a
    tool becomes its server, and hints of MCP in `metadata`, such as `readOnlyHint`, annotations.

    Args:
        tools: with names that differ.
        engine: an engine over these tools, `Engine.from_tools(tools)`; made when absent.

    Attributes:
        by_name: tools by name.
        engine: engine over these tools.

    Raises:
        RequestError: an item is no tool of LangChain, two tools have one name, or an engine over
            tools that are not among them.
    """

    def __init__(self, tools: Sequence[BaseTool], engine: Engine | None) -> None:
        self.by_name = _tools_by_name(tools)
        self.engine = Engine.from_tools(self.by_name.values()) if engine is None else engine
        self._allowed_cache: tuple[Catalog | None, list[str] | None] = (None, None)
        if (allowed := self.allowed()) is not None:
            foreign = next(tool.id for tool in self.engine.catalog if tool.id not in allowed)
            raise RequestError(
                f"engine: holds {foreign!r}, which none of the tools has as its name; "
                "make it with Engine.from_tools(tools)"
            )

    def allowed(self) -> list[str] | None:
        """Ids of the tools that the agent can run; None if it can run the whole catalog."""
        catalog, allowed = self._allowed_cache
        if catalog is not self.engine.catalog:
            catalog = self.engine.catalog
            ids = [tool.id for tool in catalog if tool.name in self.by_name]
            allowed = None if len(ids) == len(catalog) else ids
            self._allowed_cache = catalog, allowed
        return allowed

    def id_of(self, name: str) -> str | None:
        """Id of the tool with this name; None if there is none."""
        catalog = self.engine.catalog
        return next((catalog[row].id for row in catalog.named(name)), None)

    def runnable(self, ids: Iterable[str]) -> list[BaseTool]:
        """The tools with these ids that the agent can run, in order."""
        names = map(self.name_of, ids)
        return [self.by_name[name] for name in names if name in self.by_name]

    def name_of(self, tool_id: str) -> str:
        """The name by which the model calls a tool, or the id if there is none."""
        catalog = self.engine.catalog
        return catalog.get(tool_id).name if tool_id in catalog else tool_id


def _tools_by_name(tools: Iterable[BaseTool]) -> dict[str, BaseTool]:
    """The tools by name.

    Raises:
        RequestError: an item is not a tool, or two tools have the same name.
    """
    if not isinstance(tools, Iterable):
        raise RequestError(f"tools: a list of LangChain tools, not {type(tools).__name__}")
    by_name: dict[str, BaseTool] = {}
    for place, tool in enumerate(tools):
        if not isinstance(tool, BaseTool):
            raise RequestError(
                f"tools[{place}]: a LangChain tool, not {type(tool).__name__}; make one of a "
                "function with the decorator langchain_core.tools.tool"
            )
        if tool.name in by_name:
            raise RequestError(f"tools: two are named {tool.name!r}; an agent can run only one")
        by_name[tool.name] = tool
    return by_name
