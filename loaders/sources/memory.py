"""Definitions in memory."""

from __future__ import annotations

from collections.abc import Iterable

from ...catalog import Catalog, Tool
from ...errors import SchemaError


class MemorySource:
    """Returns definitions of tools in memory.

    Args:
        tools: full definitions; None returns each tool as it is in the catalog.
    """

    def __init__(self, tools: Catalog | Iterable[Tool] | None = None) -> None:
        self._tools = None if tools is None else {tool.id: tool for tool in tools}

    def fetch(self, tool: Tool) -> Tool:
        """The definition of a tool.

        Raises:
            SchemaError: it is not among them.
        """
        if self._tools is None:
            return tool
        found = self._tools.get(tool.id)
        if found is None:
            raise SchemaError(f"no definition of {tool.id!r:.100} in memory")
        return found
