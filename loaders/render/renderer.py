"""Protocol of a renderer: writes a `Layout` as one provider takes it."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

from ...catalog import Tool
from ..counting import bundled_counter
from ..detail import Detail
from ..prompt_layout import Batch, Layout, RenderedTool, ToolEntry

_CACHED_ENTRIES = 32_768
"""Maximum number of cached entries: four levels of 4,096 tools in two formats."""
BATCH_HEADING = "Tools loaded:\n"
"""First line of each message with lines of tools."""

SearchKind: TypeAlias = Literal["function", "search"]
"""How the model calls the search: as a function, or as the provider's own search."""
SearchContent: TypeAlias = str | list[dict[str, Any]]
"""The content of an answer to a search: a text, or the provider's objects."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A layout as a provider takes it. Treat the objects as read-only: they are shared.

    Args:
        system: the system prompt, in the provider's shape: text of the prefix, then the lines for
            servers in use.
        tools: the provider's list of tools.
        messages: messages about tools, for each batch that has any; they belong before the user's
            message of the batch's turn.
        prefix: the part that depends on the catalog alone, as text.
        segments: all parts as text, in the order in which the provider's model reads them.
    """

    system: str | list[dict[str, Any]]
    tools: list[Mapping[str, Any]]
    messages: tuple[list[dict[str, Any]], ...]
    prefix: str
    segments: tuple[str, ...]

    def changed_bytes_since(self, before: RenderedPrompt) -> int:
        """Bytes of an earlier prompt after the segments that both prompts begin with."""
        same_count = 0
        for earlier, present in zip(before.segments, self.segments, strict=False):
            if earlier != present:
                break
            same_count += 1
        return sum(
            len(segment.encode("utf-8", "replace")) for segment in before.segments[same_count:]
        )


class Renderer(Hashable, Protocol):
    """Writes tools and layouts in one format."""

    @property
    def max_name_length(self) -> int | None:
        """Maximum characters of a tool's name; None if the model calls tools by their ids."""
        ...

    @property
    def reply_providers(self) -> tuple[str, ...]:
        """Names of the providers whose replies fit the format; see `session.reply.Reply`."""
        ...

    @property
    def defers_tools(self) -> bool:
        """Whether the list of tools has every tool that the session may ever use, deferred."""
        ...

    @property
    def answers_have_definitions(self) -> bool:
        """Whether the answer to a search has definitions. If not, they are in the list of tools."""
        ...

    @property
    def search_kind(self) -> SearchKind | None:
        """The kind of the search in the list of tools; None without one."""
        ...

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A tool at a level of detail, as it is counted and as the provider takes it."""
        ...

    def search_content(
        self, loaded_tools: tuple[ToolEntry, ...], further_text: str
    ) -> SearchContent:
        """The answer to a search of the model, in formats whose answers have definitions.

        Args:
            loaded_tools: tools that the model can call from now on.
            further_text: what else the answer says; may be empty.
        """
        ...

    def message(self, text: str) -> dict[str, Any]:
        """A message with text about tools."""
        ...

    def render(self, layout: Layout) -> RenderedPrompt:
        """A layout as the provider takes it."""
        ...

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """The arguments of a request to the model.

        Args:
            system: the system prompt, in the provider's shape.
            tools: the provider's list of tools.
            messages: the conversation.
        """
        ...


@lru_cache(_CACHED_ENTRIES)
def write_entry(renderer: Renderer, tool: Tool, detail: Detail, summary: str) -> ToolEntry:
    """The text of a tool at a level of detail. Cached, so that sessions share token counts.

    Args:
        renderer: renderer of the format.
        tool: the definition.
        detail: level of detail.
        summary: summary of the tool; the full definition has none.
    """
    rendered = renderer.render_tool(tool, detail, summary)
    tokens = bundled_counter().count(f"{rendered.text}\n")
    return ToolEntry(tool.id, detail, rendered.text, rendered.provider_object, tokens)


@lru_cache(_CACHED_ENTRIES)
def deferred_entry(renderer: Renderer, tool: Tool) -> ToolEntry:
    """A tool in full whose tokens are not counted, because the model does not read it yet."""
    rendered = renderer.render_tool(tool, Detail.FULL, "")
    return ToolEntry(tool.id, Detail.FULL, rendered.text, rendered.provider_object, tokens=0)


def message_lines(entries: Iterable[ToolEntry]) -> str:
    """The entries that are written as text, under `BATCH_HEADING`; "" if there are none."""
    texts = [entry.text for entry in entries if entry.provider_object is None]
    return f"{BATCH_HEADING}{chr(10).join(texts)}\n" if texts else ""


def provider_objects(entries: Iterable[ToolEntry]) -> list[Mapping[str, Any]]:
    """The provider's objects of those entries that have one."""
    return [entry.provider_object for entry in entries if entry.provider_object is not None]


def definition_texts(entries: Iterable[ToolEntry]) -> list[str]:
    """The texts of those entries that have a provider's object, as the model reads them."""
    return [entry.text for entry in entries if entry.provider_object is not None]


def servers_in_use_segments(layout: Layout) -> tuple[str, ...]:
    """The lines for servers in use as a segment; no segment if there are none."""
    return (layout.servers_in_use_text,) if layout.servers_in_use_text else ()


def batch_texts(batches: Iterable[Batch]) -> tuple[str, ...]:
    """The text of each batch that has any."""
    return tuple(text for text in map(message_lines, batches) if text)


def compact_json(value: Any) -> str:
    """JSON as text, for what is compared from turn to turn."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
