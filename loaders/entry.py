"""The text of one tool in a prompt, cached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..catalog import Tool
from .detail import Detail
from .lru_cache import LruCache

if TYPE_CHECKING:
    from ..models import TokenCounter

_KEPT = 16_384
"""Maximum number of cached entries: four levels of 4,096 tools."""


class RenderedTool(NamedTuple):
    """How one tool is written.

    Attributes:
        text: the text that is counted; for tools in messages, also the text of the message.
        tool: the provider's object; None for tools that are written as text.
    """

    text: str
    tool: Mapping[str, Any] | None = None


class PoolEntry(NamedTuple):
    """One tool at one level of detail in one format.

    Attributes:
        tool_id: id of the tool.
        detail: level of detail.
        text: the text that is counted, one line.
        tool: the provider's object; None for tools that are written as text.
        tokens: tokens of the text and its newline.
    """

    tool_id: str
    detail: Detail
    text: str
    tool: Mapping[str, Any] | None
    tokens: int


class WritesTools(Protocol):
    """The part of a renderer that writes one tool."""

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A tool at a level of detail."""
        ...


class EntryWriter:
    """Writes tools as text in one format.

    Args:
        renderer: renderer of the format.
        counter: counts the tokens.
    """

    def __init__(self, renderer: WritesTools, counter: TokenCounter) -> None:
        self._renderer = renderer
        self._counter = counter
        self._written: LruCache[tuple[str, str, Detail, str], PoolEntry] = LruCache(_KEPT)

    def write(self, tool: Tool, detail: Detail, summary: str) -> PoolEntry:
        """The text of a tool at a level of detail.

        Args:
            tool: the definition.
            detail: level of detail.
            summary: summary of the tool; the full definition has none.
        """
        key = tool.fingerprint, tool.id, detail, summary
        if known := self._written.get(key):
            return known
        text, native = self._renderer.render_tool(tool, detail, summary)
        tokens = self._counter.count(f"{text}\n")
        return self._written.put(key, PoolEntry(tool.id, detail, text, native, tokens))
