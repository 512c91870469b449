"""Sources of full definitions: memory, a folder, an MCP server, or one source per server."""

from __future__ import annotations

from .folder import FolderSource
from .mcp import McpSource
from .memory import MemorySource
from .routed import RoutedSource
from .source import SchemaSource

__all__ = ["FolderSource", "McpSource", "MemorySource", "RoutedSource", "SchemaSource"]
