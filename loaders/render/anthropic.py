"""The format `anthropic`: tools and system blocks with cache breakpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...catalog import Tool
from ..detail import Detail
from ..entry import RenderedTool
from ..layout import Layout
from ..names import ANTHROPIC_LENGTH
from .renderer import Rendered, batch_texts, callable_tool, definitions, in_use, tools_of

BREAKPOINT: Mapping[str, str] = {"type": "ephemeral"}
"""The value of `cache_control` for a cache breakpoint."""


class AnthropicTools:
    """Resident tools first, then promoted ones in order. The pool is in the system blocks.

    The last tool and the system blocks have cache breakpoints. The model reads tools before the
    system blocks, so a promotion invalidates the cache of these; `anthropic_search` and
    `anthropic_call_tool` avoid that.
    """

    name_length: ClassVar[int | None] = ANTHROPIC_LENGTH

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A tool if the level is callable, otherwise a line of text."""
        return callable_tool(tool, detail, summary, ANTHROPIC_LENGTH, self.tool)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool."""
        return {
            "name": name,
            "description": description,
            "input_schema": {"properties": {}} | dict(schema) | {"type": "object"},
        }

    def system(self, *texts: str) -> list[dict[str, Any]]:
        """The system blocks, each marked as a cache breakpoint."""
        return [
            {"type": "text", "text": text, "cache_control": dict(BREAKPOINT)}
            for text in texts
            if text
        ]

    def message(self, text: str) -> dict[str, Any]:
        """A message with text about tools."""
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def render(self, layout: Layout) -> Rendered:
        """Tools with a breakpoint on the last, system blocks, and messages with lines of text."""
        resident, promoted = tools_of(layout.resident), tools_of(layout.promoted)
        texts = batch_texts(layout.batches)
        tools = [*resident, *promoted]
        standing = definitions(layout.resident)
        if tools:
            tools[-1] = {**tools[-1], "cache_control": dict(BREAKPOINT)}
        return Rendered(
            self.system(layout.text, layout.in_use),
            tools,
            tuple([self.message(text)] for text in texts),
            "\n".join((*standing, layout.text)),
            (
                *standing,
                *definitions(layout.promoted),
                layout.text,
                *in_use(layout),
                *texts,
            ),
        )
