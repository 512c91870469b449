"""Tools as the messages of Anthropic take them, with cache breakpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from .provider_tools import ANTHROPIC_LENGTH, ProviderTools

CACHE_BREAKPOINT: Mapping[str, Mapping[str, str]] = {"cache_control": {"type": "ephemeral"}}
"""Marks a block or a tool as the last one before a cache breakpoint."""


class AnthropicTools(ProviderTools):
    """The last tool and the system blocks have cache breakpoints.

    A promotion invalidates the cache of the system blocks; `anthropic_search` and
    `anthropic_call_tool` avoid that.
    """

    max_name_length: ClassVar[int] = ANTHROPIC_LENGTH
    reply_providers: ClassVar[tuple[str, ...]] = ("anthropic",)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool."""
        schema = {"properties": {}} | dict(schema) | {"type": "object"}
        return {"name": name, "description": description, "input_schema": schema}

    def system(self, *texts: str) -> list[dict[str, Any]]:
        """The system blocks, each marked as a cache breakpoint."""
        return [{"type": "text", "text": text, **CACHE_BREAKPOINT} for text in texts if text]

    def message(self, text: str) -> dict[str, Any]:
        """A message with text about tools."""
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """`system`, `messages` and `tools`."""
        request = {"system": system, "tools": list(tools)}
        return {name: value for name, value in request.items() if value} | {
            "messages": list(messages)
        }

    def with_breakpoint(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tool with a cache breakpoint."""
        return {**tool, **CACHE_BREAKPOINT}
