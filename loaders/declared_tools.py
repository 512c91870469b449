"""Which tools the model can call by their own names, because the provider has their definitions."""

from __future__ import annotations

from collections.abc import Iterable

from ..catalog import Tool
from ..gating.admission import Admission
from .definitions import Definition, definition_at
from .head import Head
from .levels import Level
from .providers import Provider, Way
from .providers.provider import Function
from .read_tools import ReadTools
from .summaries import Summaries


class DeclaredTools:
    """The tools whose definitions are in the provider's form, in messages or in its list.

    Args:
        provider: the provider.
        way: how found tools reach the model.

    Attributes:
        functions: id to the entry of the list that the provider took into the conversation; empty
            where that is not known any more.
        removed: ids of the tools that the provider's own messages removed and did not restore.
        quarantined: ids of those of `functions` that are quarantined now.
        deferred: the entries of the list that are loaded when a message refers to them.
        refers_to_list: whether messages have references to the list in place of definitions.
    """

    def __init__(self, provider: Provider, way: Way) -> None:
        self.functions: dict[str, Function] = {}
        self.removed: set[str] = set()
        self.quarantined: set[str] = set()
        self.deferred: list[Function] = []
        self.refers_to_list = way == "search" and provider.lists_deferred
        self._resident_ids: frozenset[str] = frozenset()
        self._provider, self._way = provider, way

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self.functions or tool_id in self._resident_ids

    def can_remove(self, tool_id: str) -> bool:
        """Whether the provider's own messages can remove and restore a tool."""
        return self._way == "append" and self._provider.redefines and tool_id in self

    def name(self, tool_id: str) -> str:
        """The name by which the model calls a tool, its own or that for `call_tool`."""
        is_by_name = self._way == "list" or tool_id in self
        return self._provider.name_of(tool_id) if is_by_name else tool_id

    def definition(self, tool: Tool, level: Level, summaries: Summaries) -> Definition:
        """A tool as a message would show it: for the provider if it can take it, or as text."""
        is_native = self._way in ("append", "search")
        if is_native and tool.id in self:
            is_native = self.can_remove(tool.id)
        if is_native and self._way == "search":
            # The list has one form of each deferred tool.
            level = Level.FULL
        return definition_at(self._provider if is_native else None, tool, level, summaries)

    def declare(self, definitions: Iterable[Definition]) -> None:
        """Note that a message has definitions; those in the provider's form are declared."""
        for definition in definitions:
            if definition.function is not None:
                self.functions[definition.tool.id] = definition.function

    def declare_again(
        self,
        tool_ids: Iterable[str],
        admission: Admission,
        read_tools: ReadTools,
        summaries: Summaries,
    ) -> list[str]:
        """Take over tools that were declared before, as the model has read them.

        Returns:
            Ids of the tools that the conversation refers to, and that the list has not any more.
        """
        rows, tools = admission.index.rows, admission.tools
        lost_ids = []
        for tool_id in tool_ids:
            read = read_tools.get(tool_id)
            function: Function = {}
            if tool_id in rows and read is not None:
                tool = tools[rows[tool_id]]
                level = Level.FULL if read.level is Level.FULL else Level.SIGNATURE
                if tool.fingerprint == read.fingerprint:
                    function = definition_at(self._provider, tool, level, summaries).function or {}
            self.functions[tool_id] = function
            if self.refers_to_list and not function and read is not None:
                lost_ids.append(tool_id)
        return lost_ids

    def follow_head(self, head: Head) -> None:
        """Take over the definitions of a head."""
        self._resident_ids = frozenset(head.levels if head.resident else ())

    def follow(self, admission: Admission, summaries: Summaries) -> None:
        """Defer all tools that the session may ever use, where messages refer to the list.

        A tool that the conversation refers to stays as it was referred to.
        """
        if not self.refers_to_list:
            return
        functions: dict[str, Function] = {}
        for tool in admission.index.catalog:
            if tool.id not in admission.unreachable and tool.id not in self._resident_ids:
                definition = definition_at(self._provider, tool, Level.FULL, summaries)
                functions[tool.id] = definition.function or {}
        for tool_id, function in self.functions.items():
            functions.pop(tool_id, None)
            # Without a function, the definition that was referred to is not known any more.
            is_known = function and tool_id not in self.quarantined
            if is_known and tool_id not in self._resident_ids:
                functions[tool_id] = function
        self.deferred = [
            {**functions[tool_id], "defer_loading": True} for tool_id in sorted(functions)
        ]

    def clear(self) -> None:
        """Note that the conversation has none of them any more."""
        self.functions.clear()
        self.removed.clear()
