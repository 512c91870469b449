"""Formats of providers that defer tools: the model reads a definition where a search found it.

The list of tools is written once. Definitions follow in the conversation, as results of searches:
those that the model asks for, and one before each turn with new tools. Nothing before them moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from ...catalog import Tool
from ..detail import Detail
from ..prompt_layout import Batch, Layout, RenderedTool, ToolEntry
from .anthropic_tools import AnthropicTools
from .openai_tools import OpenAIResponsesTools
from .provider_tools import ProviderTools, provider_name
from .renderer import (
    RenderedPrompt,
    SearchContent,
    SearchKind,
    compact_json,
    definition_texts,
    message_lines,
    provider_objects,
    servers_in_use_segments,
)

SEARCH_TOOL: Final = Tool(
    "search_tools",
    description="Find tools for a task described in plain words. The tools that fit are loaded "
    "and can be called from then on.",
    input_schema={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What has to be done."}},
        "required": ["query"],
    },
)
"""The search that a model may call. Its definition never changes."""
_QUERY_SHOWN = "tools for this turn"
"""Query of the searches that a session writes into the conversation itself."""


class _DeferredTools(ProviderTools):
    """The search tool and the prefix tools in the list; found tools as results of searches."""

    defers_tools: ClassVar[bool] = True
    answers_have_definitions: ClassVar[bool] = True
    search_kind: ClassVar[SearchKind | None] = "function"

    def __init__(self) -> None:
        text, provider_object = super().render_tool(SEARCH_TOOL, Detail.FULL, "")
        self._search_tool = ToolEntry(SEARCH_TOOL.id, Detail.FULL, text, provider_object, 0)

    def render_tool(self, tool: Tool, detail: Detail, summary: str) -> RenderedTool:
        """A tool of the provider in full, or a line of text: what is deferred never changes."""
        full = detail >= Detail.SIGNATURE
        return super().render_tool(tool, Detail.FULL if full else detail, summary)

    def listed(self, prefix_tools: Batch, layout: Layout) -> list[Mapping[str, Any]]:
        """The provider's list of tools."""
        raise NotImplementedError

    def search_exchange(self, number: int, batch: Batch) -> list[dict[str, Any]]:
        """The messages of a search that the session made for a batch, and of its result.

        Args:
            number: number of the batch, from 1.
            batch: the tools that were found.
        """
        raise NotImplementedError

    def render(self, layout: Layout) -> RenderedPrompt:
        """The list of tools, the system prompt, and an exchange for each batch."""
        prefix_tools = (*layout.prefix_tools, self._search_tool)
        messages = tuple(
            self.search_exchange(number, batch) for number, batch in enumerate(layout.batches, 1)
        )
        batch_segments = (
            "\n".join((compact_json(exchange), *definition_texts(batch)))
            for exchange, batch in zip(messages, layout.batches, strict=True)
        )
        prefix_segments = [*definition_texts(prefix_tools), layout.prefix_text]
        return RenderedPrompt(
            system=self.system(layout.prefix_text, layout.servers_in_use_text),
            tools=self.listed(prefix_tools, layout),
            messages=messages,
            prefix="\n".join(prefix_segments),
            segments=(*prefix_segments, *servers_in_use_segments(layout), *batch_segments),
        )


class AnthropicToolSearch(_DeferredTools, AnthropicTools):
    """All tools that the session may ever use are sent with `defer_loading`.

    A result of a search has references to them. The API refuses a reference to a tool that is not
    in the list, so `request` removes those to tools that were taken out of it.
    """

    def listed(self, prefix_tools: Batch, layout: Layout) -> list[Mapping[str, Any]]:
        """Resident tools up to the breakpoint, which no deferred tool may have; the others."""
        tools = provider_objects(prefix_tools)
        present = {entry.tool_id for entry in prefix_tools}
        deferred = provider_objects(
            entry for entry in layout.deferred if entry.tool_id not in present
        )
        return [
            *tools[:-1],
            self.with_breakpoint(tools[-1]),
            *({**tool, "defer_loading": True} for tool in deferred),
        ]

    def search_exchange(self, number: int, batch: Batch) -> list[dict[str, Any]]:
        """A call of the search tool and its result."""
        call_id = f"toolu_shortlist_{number:06}"
        call = {
            "type": "tool_use",
            "id": call_id,
            "name": SEARCH_TOOL.name,
            "input": {"query": _QUERY_SHOWN},
        }
        content = self.search_content(batch, "")
        result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]

    def search_content(
        self, loaded_tools: tuple[ToolEntry, ...], further_text: str
    ) -> SearchContent:
        """References to the tools, and the further text."""
        text = "\n".join(filter(None, (message_lines(loaded_tools), further_text)))
        content: list[dict[str, Any]] = [
            {"type": "tool_reference", "tool_name": tool["name"]}
            for tool in provider_objects(loaded_tools)
        ]
        return [*content, *([{"type": "text", "text": text}] if text else [])]

    def request(
        self,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        messages: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """`system`, `messages` and `tools`. Without references to tools that are not in `tools`."""
        names = {str(tool.get("name")) for tool in tools}
        return super().request(
            system, tools, [_without_other_references(message, names) for message in messages]
        )


class OpenAIToolSearch(_DeferredTools, OpenAIResponsesTools):
    """The list has `tool_search`, which the client runs. Its output has the definitions.

    The API takes definitions that were not in the list, so only those found are sent.
    """

    defers_tools: ClassVar[bool] = False
    search_kind: ClassVar[SearchKind | None] = "search"

    def listed(self, prefix_tools: Batch, layout: Layout) -> list[Mapping[str, Any]]:  # noqa: ARG002
        """The search, and the prefix tools."""
        search = {
            "type": "tool_search",
            "execution": "client",
            "description": SEARCH_TOOL.description,
            "parameters": SEARCH_TOOL.input_schema,
        }
        other = [entry for entry in prefix_tools if entry is not self._search_tool]
        return [search, *provider_objects(other)]

    def search_exchange(self, number: int, batch: Batch) -> list[dict[str, Any]]:
        """A search call and its output; then the lines of tools without a definition."""
        call_id = f"call_shortlist_{number:06}"
        call = {
            "type": "tool_search_call",
            "call_id": call_id,
            "execution": "client",
            "status": "completed",
            "arguments": {"query": _QUERY_SHOWN},
        }
        output = search_output(call_id, _namespaces(batch))
        text = message_lines(batch)
        return [call, output, *([self.message(text)] if text else [])]

    def search_content(
        self, loaded_tools: tuple[ToolEntry, ...], further_text: str
    ) -> SearchContent:
        """The definitions, grouped by server; the further text alone if there are none."""
        return _namespaces(loaded_tools) or further_text


def search_output(call_id: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The item that answers a search call in OpenAI's responses."""
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": list(tools),
    }


def _namespaces(batch: Iterable[ToolEntry]) -> list[dict[str, Any]]:
    """The functions of a batch: a namespace for each server, then functions without a server."""
    servers: dict[str, list[dict[str, Any]]] = {}
    for entry in batch:
        if entry.provider_object is not None:
            server, slash, _ = entry.tool_id.rpartition("/")
            function = {**entry.provider_object, "defer_loading": True}
            servers.setdefault(server if slash else "", []).append(function)
    functions = servers.pop("", [])
    return [
        *(
            {
                "type": "namespace",
                "name": provider_name(server),
                "description": f"Tools of {server}.",
                "tools": tools,
            }
            for server, tools in servers.items()
        ),
        *functions,
    ]


def _without_other_references(message: Mapping[str, Any], names: set[str]) -> Mapping[str, Any]:
    """A message without references to tools that have none of these names."""
    blocks = message.get("content")
    if not isinstance(blocks, list) or not any(map(_has_reference, blocks)):
        return message
    content = [
        {**block, "content": [_reference_or_text(part, names) for part in block["content"]]}
        if _has_reference(block)
        else block
        for block in blocks
    ]
    return {**message, "content": content}


def _has_reference(block: Any) -> bool:
    parts = block.get("content") if isinstance(block, Mapping) else None
    return isinstance(parts, list) and any(
        isinstance(part, Mapping) and part.get("type") == "tool_reference" for part in parts
    )


def _reference_or_text(part: Any, names: set[str]) -> Any:
    is_missing = (
        isinstance(part, Mapping)
        and part.get("type") == "tool_reference"
        and part.get("tool_name") not in names
    )
    return {"type": "text", "text": "A tool that is no longer available."} if is_missing else part
