"""Sources of full definitions: memory, a folder, an MCP server, or one source per server."""

from __future__ import annotations

from .folder import FolderSource
from .mcp import McpSource
from .source import MemorySource, RoutedSource, SchemaSource

__all__ = ["FolderSource", "McpSource", "MemorySource", "RoutedSource", "SchemaSource"]
