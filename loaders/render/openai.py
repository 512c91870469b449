"""Function tools as the chat completions of OpenAI take them, and what follows that shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ...catalog import Tool
from ..detail import Detail
from ..entry import RenderedTool
from ..layout import Layout
from ..names import OPENAI_LENGTH
from .renderer import Rendered, batch_texts, callable_tool, definitions, in_use, tools_of


class OpenAITools:
    """Resident tools first, promoted ones after them in order; the pool in the system message.

    The model reads tools before the system message, so a promotion moves what comes after the
    list: the pool and the conversation are read anew. `openai_call_tool` does without that.
    """

    name_length: ClassVar[int | None] = OPENAI_LENGTH

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A function tool where it can be called with it, else a line of text."""
        return callable_tool(tool, detail, summary, OPENAI_LENGTH, self.tool)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A function tool."""
        parameters = {"type": "object", "properties": {}} | dict(schema)
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}

    def system(self, *texts: str) -> str:
        """The system prompt; caching needs no mark."""
        return "\n\n".join(filter(None, texts))

    def message(self, text: str) -> dict[str, Any]:
        """A message that tells about tools."""
        return {"role": "system", "content": text}

    def render(self, layout: Layout) -> Rendered:
        """Tools, the system text, and a message for each batch with lines of text."""
        resident, promoted = tools_of(layout.resident), tools_of(layout.promoted)
        texts = batch_texts(layout.batches)
        standing = definitions(layout.resident)
        return Rendered(
            self.system(layout.text, layout.in_use),
            [*resident, *promoted],
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
