"""One tool as it stands in a prompt, made once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..catalog import Tool
from .detail import Detail
from .lru_cache import LruCache

if TYPE_CHECKING:
    from ..models import TokenCounter

_KEPT = 16_384
"""Entries kept: four levels of 4,096 tools."""


class RenderedTool(NamedTuple):
    """How one tool is written.

    Attributes:
        text: what is counted and, for tools that travel in messages, what is written there.
        tool: the provider's own object; None for what travels as text.
    """

    text: str
    tool: Mapping[str, Any] | None = None


class PoolEntry(NamedTuple):
    """One tool at one level of detail in one format.

    Attributes:
        tool_id: its id.
        detail: its level.
        text: what is counted, one line.
        tool: the provider's own object; None for what travels as text.
        tokens: of the text and the end of its line.
    """

    tool_id: str
    detail: Detail
    text: str
    tool: Mapping[str, Any] | None
    tokens: int


class WritesTools(Protocol):
    """What of a renderer is needed to write one tool."""

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A tool at a level of detail."""
        ...


class EntryWriter:
    """Writes tools as text in one format.

    Args:
        renderer: of the format.
        counter: counts the tokens.
    """

    def __init__(self, renderer: WritesTools, counter: TokenCounter) -> None:
        self._renderer = renderer
        self._counter = counter
        self._written: LruCache[tuple[str, str, Detail, str], PoolEntry] = LruCache(_KEPT)

    def write(self, tool: Tool, detail: Detail, summary: str) -> PoolEntry:
        """The text of a tool at a level of detail.

        Args:
            tool: its definition.
            detail: how much of it.
            summary: of the tool; the whole definition is written without.
        """
        key = tool.fingerprint, tool.id, detail, summary
        if known := self._written.get(key):
            return known
        text, native = self._renderer.render_tool(tool, detail, summary)
        tokens = self._counter.count(f"{text}\n")
        return self._written.put(key, PoolEntry(tool.id, detail, text, native, tokens))
