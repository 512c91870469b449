"""Plain text, for prompts that are built by hand."""

from __future__ import annotations

from typing import Any, ClassVar

from ...catalog import Tool
from ..detail import Detail
from ..entry import RenderedTool
from ..layout import Layout
from .renderer import Rendered, batch_texts, in_use, line, resident_text


class PlainText:
    """The prefix is the system text; each batch is a text of its own, under the tools' ids."""

    name_length: ClassVar[int | None] = None

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A line of text at every level."""
        return line(tool, detail, summary)

    def message(self, text: str) -> dict[str, Any]:
        """A message that tells about tools."""
        return {"role": "system", "content": text}

    def render(self, layout: Layout) -> Rendered:
        """System text and one message of `role` system per batch."""
        prefix = resident_text(layout)
        texts = batch_texts(layout.batches)
        system = "\n\n".join(part for part in (prefix, layout.in_use) if part)
        messages = tuple([self.message(text)] for text in texts)
        return Rendered(system, [], messages, prefix, (prefix, *in_use(layout), *texts))
