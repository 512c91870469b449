"""The formats tools can be read from, one file each."""

from __future__ import annotations

from .jsonl import RowReader
from .mcp import McpReader
from .protocol import Document, Entry, Reader

READERS: tuple[Reader, ...] = (RowReader(), McpReader())
"""Every format, the more particular before the more general: the first to recognise a document reads it."""

__all__ = ["READERS", "Document", "Entry", "Reader"]
