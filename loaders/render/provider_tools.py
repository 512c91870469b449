"""Tools in a provider's own list of tools, under names that the provider accepts.

A `Layout` has the parts of a prompt about tools. A `Batch` has the tools that one turn added to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar

from ...catalog import Tool
from ...catalog.short_definition import without_prose
from ..detail import Detail, definition_text, describe
from ..prompt_layout import Layout, RenderedTool, ToolEntry
from .renderer import (
    RenderedPrompt,
    SearchContent,
    SearchKind,
    batch_texts,
    definition_texts,
    message_lines,
    provider_objects,
    servers_in_use_segments,
)


class ProviderTools:
    """The list has the tools of the prefix, then promoted ones. The system prompt has the pool.

    The model reads the list before the system prompt. So a promotion invalidates the provider's
    cache of the system prompt and of the conversation. A subclass writes one provider's objects.

    Attributes:
        max_name_length: maximum characters of a tool's name.
        reply_providers: names of the providers whose replies fit the format; see
            `session.reply.Reply`.
        defers_tools: whether the list has every tool that the session may ever use. The model reads
            such a tool only after a search found it.
        answers_have_definitions: whether the answer to a search has definitions.
        search_kind: how the model calls the search; None without one.
    """

    max_name_length: ClassVar[int]
    reply_providers: ClassVar[tuple[str, ...]]
    defers_tools: ClassVar[bool] = False
    answers_have_definitions: ClassVar[bool] = False
    search_kind: ClassVar[SearchKind | None] = None

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """The provider's object of a tool for the levels signature and full; else a line of text.

        A signature has the summary as its description, and no prose in its schema.
        """
        if detail < Detail.SIGNATURE:
            return RenderedTool(describe(tool, detail, summary))
        name = provider_name(tool.id, self.max_name_length)
        full = detail is Detail.FULL
        schema = tool.input_schema if full else without_prose(tool.input_schema)
        description = tool.description if full else summary
        text = definition_text(name, description, schema)
        return RenderedTool(text, self.tool(name, description, schema))

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool in the provider's shape."""
        raise NotImplementedError

    def system(self, *texts: str) -> str | list[dict[str, Any]]:
        """The system prompt."""
        return "\n\n".join(filter(None, texts))

    def message(self, text: str) -> dict[str, Any]:
        """A message with text about tools."""
        return {"role": "system", "content": text}

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """The arguments of a request to the model."""
        raise NotImplementedError

    def search_content(
        self, loaded_tools: tuple[ToolEntry, ...], further_text: str
    ) -> SearchContent:
        """Lines of the tools, and the further text."""
        return "\n".join(filter(None, (message_lines(loaded_tools), further_text)))

    def with_breakpoint(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """The last tool of the list, with a cache breakpoint if the provider has breakpoints."""
        return tool

    def render(self, layout: Layout) -> RenderedPrompt:
        """Tools, the system prompt, and a message for each batch with lines of text."""
        tools = [*provider_objects(layout.prefix_tools), *provider_objects(layout.promoted)]
        texts = batch_texts(layout.batches)
        prefix_segments = definition_texts(layout.prefix_tools)
        return RenderedPrompt(
            system=self.system(layout.prefix_text, layout.servers_in_use_text),
            tools=[*tools[:-1], *map(self.with_breakpoint, tools[-1:])],
            messages=tuple([self.message(text)] for text in texts),
            prefix="\n".join((*prefix_segments, layout.prefix_text)),
            segments=(
                *prefix_segments,
                *definition_texts(layout.promoted),
                layout.prefix_text,
                *servers_in_use_segments(layout),
                *texts,
            ),
        )


OPENAI_LENGTH = 64
"""Maximum length of a function name in the OpenAI API: ^[a-zA-Z0-9_-]{1,64}$."""
ANTHROPIC_LENGTH = 128
"""Maximum length of a tool name in the Anthropic API: ^[a-zA-Z0-9_-]{1,128}$."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+(?:[/ ][A-Za-z0-9_-]+)*")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9-]+")
_HASH_DIGITS = 20
"""Hexadecimal digits of the hash, 80 bits: nobody finds a second id with the same ones."""


def provider_name(tool_id: str, length: int = OPENAI_LENGTH) -> str:
    """The name of a tool for a provider, unique for each id.

    A slash becomes two underscores (`github/create_issue` gives `github__create_issue`), and a
    blank two hyphens (`Maps/Find place` gives `Maps__Find--place`). If that name would be
    ambiguous, too long or invalid, the name is a part of the id, three underscores (which no other
    name has), and a hash of the id.

    Args:
        tool_id: any text.
        length: maximum number of characters.
    """
    if _PLAIN_ID.fullmatch(tool_id) and "__" not in tool_id and "--" not in tool_id:
        plain = tool_id.replace("/", "__").replace(" ", "--")
        if "___" not in plain and "---" not in plain and len(plain) <= length:
            return plain
    digest = sha256(tool_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    readable = _NOT_IN_NAMES.sub("_", tool_id).strip("_")[: length - _HASH_DIGITS - 3].rstrip("_")
    return f"{readable or 'tool'}___{digest}"
