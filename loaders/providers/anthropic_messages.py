"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..own_tools import SEARCH_TOOL
from .provider import Function, LoadedFunction, Provider, SearchContent, Way
from .reply import (
    CallAnswer,
    Messages,
    ModelCall,
    Reply,
    joined_texts,
    sent_blocks,
    text_field,
)

CACHE_BREAKPOINT: Mapping[str, Mapping[str, str]] = {"cache_control": {"type": "ephemeral"}}
"""Marks a block or a tool as the last one before a cache breakpoint."""
_OUTPUT_ONLY = frozenset({"parsed", "parsed_arguments", "parsed_output"})
_GONE = "A tool that is no longer available."


class Anthropic(Provider):
    """The system prompt and the last tool that is not deferred have cache breakpoints."""

    name: ClassVar[str] = "anthropic"
    ways: ClassVar[tuple[Way, ...]] = ("call_tool", "append", "search", "list")
    #: The API's pattern is ^[a-zA-Z0-9_-]{1,128}$.
    name_length: ClassVar[int | None] = 128
    #: "To change a tool's schema, send a different definition under the same name": the page
    #: "Mid-conversation system messages and tool changes".
    redefines: ClassVar[bool] = True
    lists_deferred: ClassVar[bool] = True
    search_loads_text: ClassVar[bool] = True
    betas: ClassVar[Mapping[Way, tuple[str, ...]]] = {"append": ("inline-tools-2026-09-15",)}

    def function(self, name: str, description: str, schema: Mapping[str, Any]) -> Function:
        """A tool."""
        schema = {"properties": {}} | dict(schema) | {"type": "object"}
        return {"name": name, "description": description, "input_schema": schema}

    def note(self, text: str, way: Way) -> dict[str, Any]:
        """A message with text about tools. Models without `append` take it from the user only."""
        role = "system" if way == "append" else "user"
        return {"role": role, "content": [{"type": "text", "text": text}]}

    def additions(
        self, loaded: Sequence[LoadedFunction], *, removed: Sequence[str], restored: Sequence[str]
    ) -> Messages:
        """A system message with `tool_removal` and `tool_addition` blocks."""
        definitions = [{"type": "tool_definition", "definition": tool.function} for tool in loaded]
        blocks = [
            *({"type": "tool_removal", "tool": _reference(name)} for name in removed),
            *({"type": "tool_addition", "tool": _reference(name)} for name in restored),
            *({"type": "tool_addition", "tool": definition} for definition in definitions),
        ]
        return [{"role": "system", "content": blocks}] if blocks else []

    def search_exchange(self, call_id: str, loaded: Sequence[LoadedFunction]) -> Messages:
        """A call of the search tool and its result."""
        call = {
            "type": "tool_use",
            "id": call_id,
            "name": SEARCH_TOOL.name,
            "input": {"query": "tools for this turn"},
        }
        content = self.search_content(loaded, "")
        result = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    def search_content(self, loaded: Sequence[LoadedFunction], text: str) -> SearchContent:
        """References to the tools, and the text."""
        content: list[dict[str, Any]] = [
            {"type": "tool_reference", "tool_name": tool.function["name"]} for tool in loaded
        ]
        return [*content, *([{"type": "text", "text": text}] if text else [])]

    def request(
        self, system: str, tools: Sequence[Function], messages: Messages, way: Way
    ) -> dict[str, Any]:
        """`system`, `messages`, `tools`, and `betas` where the way needs them.

        The API refuses a reference to a tool that is not in the list, so that those to tools that
        left it become text. Removals and additions of such tools are left out.
        """
        last_resident = max(
            (place for place, tool in enumerate(tools) if not tool.get("defer_loading")), default=-1
        )
        marked = [
            {**tool, **CACHE_BREAKPOINT} if place == last_resident else tool
            for place, tool in enumerate(tools)
        ]
        request: dict[str, Any] = {}
        if system:
            request["system"] = [{"type": "text", "text": system, **CACHE_BREAKPOINT}]
        if marked:
            request["tools"] = marked
        if way == "search":
            names = {str(tool.get("name")) for tool in tools}
            messages = [_without_other_references(message, names) for message in messages]
        if way == "append":
            messages = _system_messages_last(_without_impossible_changes(messages, tools))
        request["messages"] = messages
        if betas := self.betas.get(way):
            request["betas"] = list(betas)
        return request

    def read_reply(self, value: object) -> Reply | None:
        """A message of the assistant: `content` is a list of blocks, with the calls among them."""
        if not isinstance(value, Mapping) or value.get("role") != "assistant":
            return None
        content = value.get("content")
        if not isinstance(content, list) or "tool_calls" in value:
            return None
        calls = []
        for index, block in enumerate(content):
            if isinstance(block, Mapping) and block.get("type") == "tool_use":
                place = f"content[{index}]"
                name = text_field(block, "name", place)
                calls.append(ModelCall(text_field(block, "id", place), name, block.get("input")))
        message = {"role": "assistant", "content": sent_blocks(content, _OUTPUT_ONLY)}
        text, is_paused = joined_texts(content, "text"), value.get("stop_reason") == "pause_turn"
        return Reply(self.name, [message], tuple(calls), text, is_paused)

    def answers(self, answers: Sequence[CallAnswer]) -> Messages:
        """The results of all calls of a reply, which the API takes in one message."""
        results: Messages = [
            {"type": "tool_result", "tool_use_id": answer.call.id, "content": answer.content}
            | ({} if answer.ok else {"is_error": True})
            for answer in answers
        ]
        return [{"role": "user", "content": results}] if results else []


def _reference(name: str) -> dict[str, Any]:
    return {"type": "tool_reference", "name": name}


def _system_messages_last(messages: Messages) -> Messages:
    """The messages, with each system message after the user's messages that follow it.

    The API refuses a user's message after a system message. There is one if a request got no reply
    and the user wrote again.
    """
    ordered: Messages = []
    waiting: Messages = []
    for message in messages:
        if message.get("role") == "system":
            waiting.append(message)
            continue
        if message.get("role") != "user":
            ordered += waiting
            waiting = []
        ordered.append(message)
    return [*ordered, *waiting]


def _without_impossible_changes(messages: Messages, tools: Sequence[Function]) -> Messages:
    """The messages, without removals and additions that the API refuses.

    They name a tool that is not defined there, or remove one that is not available. That happens
    where the list of tools was written again, or the host removed messages with definitions.
    """
    defined = {str(tool.get("name")) for tool in tools}
    available = {str(tool.get("name")) for tool in tools if not tool.get("defer_loading")}
    kept: Messages = []
    for message in messages:
        blocks = message.get("content")
        if message.get("role") != "system" or not isinstance(blocks, list):
            kept.append(message)
            continue
        possible = []
        for block in blocks:
            kind, tool = block.get("type"), block.get("tool", {})
            name = str(tool.get("name") or tool.get("definition", {}).get("name"))
            if tool.get("type") == "tool_definition":
                defined.add(name)
                available.add(name)
            elif kind == "tool_addition" and name in defined:
                available.add(name)
            elif kind == "tool_removal" and name in available:
                available.remove(name)
            elif kind in ("tool_addition", "tool_removal"):
                continue
            possible.append(block)
        if possible:
            kept.append({**message, "content": possible})
    return kept


def _without_other_references(message: dict[str, Any], names: set[str]) -> dict[str, Any]:
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
    return {"type": "text", "text": _GONE} if is_missing else part
