"""The stable form: one tool that calls any other, while definitions travel in messages."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ...catalog import Tool
from ..detail import Detail
from ..entry import RenderedTool
from ..layout import Layout
from .anthropic import BREAKPOINT, AnthropicTools
from .openai import OpenAITools
from .renderer import Rendered, batch_texts, dump, in_use, line, resident_text

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
"""The one tool; its definition never changes."""


class CallTool:
    """The list of tools never changes, so nothing before a new batch moves, with any provider.

    Args:
        provider: whose shape the one tool, the system prompt and the messages take.
    """

    name_length: ClassVar[int | None] = None

    def __init__(self, provider: OpenAITools | AnthropicTools) -> None:
        self._provider = provider
        self._tool = provider.tool(CALL_TOOL.name, CALL_TOOL.description, CALL_TOOL.input_schema)
        self._definition = dump(self._tool)
        self._marked = isinstance(provider, AnthropicTools)

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A line of text at every level."""
        return line(tool, detail, summary)

    def message(self, text: str) -> dict[str, Any]:
        """A message that tells about tools."""
        return self._provider.message(text)

    def render(self, layout: Layout) -> Rendered:
        """The one tool, the prefix as system prompt, and a message per batch."""
        prefix = resident_text(layout)
        texts = batch_texts(layout.batches)
        standing = (self._definition, prefix)
        marked = {**self._tool, "cache_control": dict(BREAKPOINT)} if self._marked else self._tool
        return Rendered(
            self._provider.system(prefix, layout.in_use),
            [marked],
            tuple([self._provider.message(text)] for text in texts),
            "\n".join(standing),
            (*standing, *in_use(layout), *texts),
        )
