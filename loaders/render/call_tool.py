"""Definitions in messages: as plain text, or beside a tool that calls any other and a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from ...catalog import Tool
from ..detail import Detail, describe
from ..prompt_layout import Layout, RenderedTool, ToolEntry
from .deferred_tools import SEARCH_TOOL
from .provider_tools import ProviderTools
from .renderer import (
    RenderedPrompt,
    SearchContent,
    SearchKind,
    batch_texts,
    compact_json,
    message_lines,
    servers_in_use_segments,
)

CALL_TOOL: Final = Tool(
    "call_tool",
    description="Call a tool by its id. Its definition has to be in the conversation; the "
    "arguments must follow the input_schema or signature given there.",
    input_schema={
        "type": "object",
        "properties": {
            "tool": {"type": "string", "description": "Id of the tool, as server/name."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    },
)
"""Calls any other tool. Its definition never changes."""


class MessageRenderer:
    """Definitions are in messages, as lines with the tools' ids. The list of tools never changes.

    A new batch changes no earlier part of the prompt, so the cache of every provider stays valid.

    Args:
        provider: whose shape the system prompt, the messages and the listed tools take.
        listed: the tools of the list.

    Attributes:
        reply_providers: names of the providers whose replies fit the format.
        search_kind: how the model calls the search; None if it has none.
    """

    max_name_length: ClassVar[int | None] = None
    defers_tools: ClassVar[bool] = False
    answers_have_definitions: ClassVar[bool] = True

    def __init__(self, provider: ProviderTools, *listed: Tool) -> None:
        self._provider = provider
        self.reply_providers = provider.reply_providers
        tools = [provider.tool(tool.name, tool.description, tool.input_schema) for tool in listed]
        self._definitions = list(map(compact_json, tools))
        self._listed = [*tools[:-1], *map(provider.with_breakpoint, tools[-1:])]
        self.search_kind: SearchKind | None = "function" if SEARCH_TOOL in listed else None

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A line of text at every level."""
        return RenderedTool(describe(tool, detail, summary))

    def search_content(
        self, loaded_tools: tuple[ToolEntry, ...], further_text: str
    ) -> SearchContent:
        """The definitions as lines, and the further text."""
        return "\n".join(filter(None, (message_lines(loaded_tools), further_text)))

    def message(self, text: str) -> dict[str, Any]:
        """A message with text about tools."""
        return self._provider.message(text)

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """The arguments of a request to the model."""
        return self._provider.request(system, tools, messages)

    def render(self, layout: Layout) -> RenderedPrompt:
        """The prefix and prefix tools as system prompt, and a message per batch."""
        prefix = "\n\n".join(filter(None, (layout.prefix_text, message_lines(layout.prefix_tools))))
        texts = batch_texts(layout.batches)
        prefix_segments = (*self._definitions, prefix)
        return RenderedPrompt(
            system=self._provider.system(prefix, layout.servers_in_use_text),
            tools=list(self._listed),
            messages=tuple([self.message(text)] for text in texts),
            prefix="\n".join(prefix_segments),
            segments=(*prefix_segments, *servers_in_use_segments(layout), *texts),
        )
