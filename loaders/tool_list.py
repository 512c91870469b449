"""Which tools the list of the way `list` has: those found or called last, as many as fit."""

from __future__ import annotations

from ..catalog import Tool
from ..gating.admission import Admission
from .definitions import Definition, choose_definitions, definition_at
from .providers import Provider
from .providers.provider import Function
from .summaries import Summaries


class ToolList:
    """The tools of the list of the way `list`; empty in other ways.

    Args:
        provider: the provider.
        budget: maximum tokens of the list.

    Attributes:
        latest: ids of the tools, the one found or called last at the end.
        definitions: their definitions, in order of id.
    """

    def __init__(self, provider: Provider, budget: int) -> None:
        self.latest: dict[str, None] = {}
        self.definitions: list[Definition] = []
        self._provider, self._budget = provider, budget

    @property
    def ids(self) -> set[str]:
        """Ids of the tools in the list."""
        return {definition.tool.id for definition in self.definitions}

    @property
    def functions(self) -> list[Function]:
        """The entries of the list."""
        return [
            definition.function
            for definition in self.definitions
            if definition.function is not None
        ]

    def add(self, tool: Tool) -> None:
        """Add a tool as the latest one; the list has it from the next choice on."""
        self.latest.pop(tool.id, None)
        self.latest[tool.id] = None

    def choose(self, admission: Admission, summaries: Summaries) -> list[str]:
        """Choose the definitions again: those of the latest permitted tools that fit.

        Returns:
            Ids of the permitted tools that left.
        """
        rows, tools = admission.index.rows, admission.tools
        candidates = [
            tools[rows[tool_id]] for tool_id in reversed(self.latest) if admission.admits(tool_id)
        ]
        definitions = choose_definitions(
            candidates,
            self._budget,
            lambda tool, level: definition_at(self._provider, tool, level, summaries),
        )
        self.definitions = sorted(definitions, key=lambda definition: definition.tool.id)
        ids = self.ids
        self.latest = {tool_id: None for tool_id in self.latest if tool_id in ids}
        return [tool.id for tool in candidates if tool.id not in ids]
