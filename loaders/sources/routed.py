"""Several sources, one for the tools of each server."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ...catalog import Tool
from ...errors import SchemaError
from .source import SchemaSource


class RoutedSource:
    """Reads each definition from the source of the tool's server.

    Args:
        sources: server to its source; "" for tools without a server.
    """

    def __init__(self, sources: Mapping[str, SchemaSource]) -> None:
        self._sources = dict(sources)

    def fetch(self, tool: Tool) -> Tool | Awaitable[Tool]:
        """The definition of a tool.

        Raises:
            SchemaError: its server has no source.
        """
        source = self._sources.get(tool.server or "")
        if source is None:
            raise SchemaError(f"server {tool.server!r:.100} has no source of definitions")
        return source.fetch(tool)
