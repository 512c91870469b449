"""The formats `anthropic` and `anthropic_search`: tools with cache breakpoints, or deferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...catalog import Tool
from ..detail import Detail
from ..prompt_layout import Batch, Layout, PoolEntry
from .provider_tools import ANTHROPIC_LENGTH, ProviderTools
from .renderer import RenderedPrompt, definitions, dump, in_use, lines, tools_of

BREAKPOINT: Mapping[str, Mapping[str, str]] = {"cache_control": {"type": "ephemeral"}}
"""A cache breakpoint: part of the last block before it."""
SEARCH_TOOL = Tool(
    "search_tools",
    description="Find tools for a task described in plain words. The tools that fit are loaded "
    "and can be called from then on.",
    input_schema={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What has to be done."}},
        "required": ["query"],
    },
)
"""Added if no resident tool has its id: the list must have a tool that is not deferred, and
references must be results of a search."""
_QUERY = "tools for this turn"


class AnthropicTools(ProviderTools):
    """The last tool and the system blocks have cache breakpoints.

    A promotion invalidates the cache of the system blocks; `anthropic_search` and
    `anthropic_call_tool` avoid that.
    """

    name_length: ClassVar[int] = ANTHROPIC_LENGTH
    providers: ClassVar[tuple[str, ...]] = ("anthropic",)

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool."""
        schema = {"properties": {}} | dict(schema) | {"type": "object"}
        return {"name": name, "description": description, "input_schema": schema}

    def system(self, *texts: str) -> list[dict[str, Any]]:
        """The system blocks, each marked as a cache breakpoint."""
        return [{"type": "text", "text": text, **BREAKPOINT} for text in texts if text]

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

    def marked(self, tool: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tool with a cache breakpoint."""
        return {**tool, **BREAKPOINT}


class AnthropicToolSearch(AnthropicTools):
    """Promoted tools are sent with `defer_loading`, which keeps them out of the prefix.

    A batch is a search and its result: references, which the model reads as definitions at that
    place of the conversation. Nothing before it moves.
    """

    def __init__(self) -> None:
        text, tool = self.render_tool(SEARCH_TOOL, Detail.FULL, "")
        self._search_tool = PoolEntry(SEARCH_TOOL.id, Detail.FULL, text, tool, 0)

    def render(self, layout: Layout) -> RenderedPrompt:
        """Resident tools up to the breakpoint, then the deferred; two messages per batch."""
        searches = any(entry.tool_id == SEARCH_TOOL.id for entry in layout.resident)
        always = layout.resident if searches else (*layout.resident, self._search_tool)
        resident = tools_of(always)
        promoted = tools_of(layout.promoted)
        messages = tuple(
            self._search_exchange(number, batch) for number, batch in enumerate(layout.batches, 1)
        )
        batch_segments = (
            "\n".join((dump(exchange), *definitions(batch)))
            for exchange, batch in zip(messages, layout.batches, strict=True)
        )
        prefix_segments = [*definitions(always), layout.text]
        return RenderedPrompt(
            self.system(layout.text, layout.in_use),
            [
                *resident[:-1],
                self.marked(resident[-1]),
                *({**tool, "defer_loading": True} for tool in promoted),
            ],
            messages,
            "\n".join(prefix_segments),
            (*prefix_segments, *in_use(layout), *batch_segments),
        )

    def _search_exchange(self, number: int, batch: Batch) -> list[dict[str, Any]]:
        """A call of the search tool and its result."""
        identity = f"toolu_shortlist_{number:06}"
        call = {
            "type": "tool_use",
            "id": identity,
            "name": SEARCH_TOOL.name,
            "input": {"query": _QUERY},
        }
        content: list[dict[str, Any]] = [
            {"type": "tool_reference", "tool_name": tool["name"]} for tool in tools_of(batch)
        ]
        if text := lines(batch):
            content.append({"type": "text", "text": text})
        result = {"type": "tool_result", "tool_use_id": identity, "content": content}
        return [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
