"""Rules across the parts of a request to Anthropic's Messages API.

Sources, by letter:
A: platform.claude.com, "Mid-conversation system messages and tool changes".
B: platform.claude.com, "Handle tool calls".
C: platform.claude.com, "Tool search tool", section "Error handling".
D: platform.claude.com, "Prompt caching".
E: anthropic/types/beta/message_create_params.py and the blocks' types beside it.
F: messages of the service's 400 answers, as the users of its SDKs quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from anthropic.types.anthropic_beta_param import AnthropicBetaParam

from .definition_rules import (
    Json,
    Refusal,
    Rules,
    check_name,
    check_object_schema,
    check_strict_schema,
)

INLINE_TOOLS = "inline-tools-2026-09-15"
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
CLEAR_AT = "mid-conversation-system-clear-at-2026-08-21"
OUTPUT_CONFIG = "mid-conversation-output-config-2026-07-01"
_CACHE_BREAKPOINTS = 4
_BLOCK_ROLES = {
    "tool_use": "assistant",
    "tool_result": "user",
    "tool_addition": "system",
    "tool_removal": "system",
}
_UNANSWERED = "`tool_use` ids were found without `tool_result` blocks immediately after"
#: What a user or a model writes: a key `cache_control` in it is no breakpoint.
_FREE_FORM = ("input", "input_schema", "input_examples")


def check_messages_request(request: Json, betas: set[str], rules: Rules) -> set[str]:
    """The names of the tools that the model can call at the end.

    Raises:
        Refusal: A rule that the request breaks.
    """
    return _MessagesRequest(request, betas, rules).check()


class _MessagesRequest:
    def __init__(self, request: Json, betas: set[str], rules: Rules) -> None:
        self.request = request
        self.betas = betas
        self.rules = rules
        self.messages: list[Json] = request["messages"]
        self.definitions: dict[str, Json] = {}
        """Every tool declared or defined so far, by name."""
        self.available: set[str] = set()
        self.call_ids: set[str] = set()

    def check(self) -> set[str]:
        _, known_betas = get_args(AnthropicBetaParam)
        if unknown := self.betas - set(get_args(known_betas)):
            raise Refusal(f"anthropic-beta: unexpected value {min(unknown)!r}")  # F
        self._check_tools()
        self._check_cache_breakpoints()
        self._check_no_empty_text(self.request.get("system", ()), "system")
        if not self.messages:
            raise Refusal("messages: at least one message is required")  # F
        if self.messages[0]["role"] == "assistant":
            raise Refusal("messages: first message must use the 'user' role")  # F
        open_calls: set[str] = set()
        for index, message in enumerate(self.messages):
            place = f"messages.{index}"
            self._check_content(message, place)
            if message["role"] == "system" and not message.get("content"):
                self._check_system_betas(message, place)  # A: accepted anywhere
                continue
            self._check_results(message, open_calls, place)
            open_calls = set()
            if message["role"] == "system":
                self._check_system_message(index, place)
            elif message["role"] == "assistant":
                open_calls = self._check_calls(message, place)
            else:
                self._load_references(message, place)
        self._check_end(open_calls)
        return self.available

    def _check_tools(self) -> None:
        tools = self.request.get("tools", [])
        for index, tool in enumerate(tools):
            place = f"tools.{index}"
            self._check_definition(tool, place)
            if (name := tool.get("name")) in self.definitions:
                raise Refusal(f"tools: tool names must be unique: {name!r}")  # F
            self._define(tool)
        all_deferred = tools and all(tool.get("defer_loading") for tool in tools)
        accepted = self.rules.anthropic_all_deferred and INLINE_TOOLS in self.betas
        if all_deferred and not accepted:  # C; A accepts it with the beta
            raise Refusal(
                "All tools have defer_loading set. At least one tool must be non-deferred."
            )
        choice = self.request.get("tool_choice")
        if choice and not tools:
            raise Refusal("tool_choice may only be specified while providing tools")  # F
        if choice and choice["type"] == "tool" and choice["name"] not in self.definitions:
            raise Refusal(f"tool_choice: tool {choice['name']!r} not found in tools")  # F

    def _check_definition(self, tool: Json, place: str) -> None:
        if tool.get("name"):
            check_name(tool["name"], place)
        if tool.get("defer_loading") and tool.get("cache_control"):  # A; F
            raise Refusal(f"{place}: cannot have both defer_loading=true and cache_control set")
        if "input_schema" in tool:
            schema = tool["input_schema"]
            check_object_schema(schema, f"{place}.input_schema")
            if tool.get("strict"):
                check_strict_schema(schema, f"{place}.input_schema", all_required=False)

    def _define(self, tool: Json) -> None:
        if name := tool.get("name"):
            self.definitions[name] = tool
            if tool.get("defer_loading"):
                self.available.discard(name)
            else:
                self.available.add(name)

    def _check_cache_breakpoints(self) -> None:
        count = sum(1 for _ in _cache_controls(self.request))
        if count > _CACHE_BREAKPOINTS:  # D
            raise Refusal(
                f"A maximum of 4 blocks with cache_control may be provided, found {count}"
            )

    def _check_no_empty_text(self, blocks: Any, place: str) -> None:
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if block["type"] == "text" and not block["text"].strip():  # F
                raise Refusal(f"{place}.{index}: text content blocks must be non-empty")

    def _check_content(self, message: Json, place: str) -> None:
        content, role = message.get("content"), message["role"]
        if not content or (isinstance(content, str) and not content.strip()):
            # A: the content may be empty where the message sets the effort only.
            if role == "system" and content in (None, []) and message.get("output_config"):
                return
            raise Refusal(f"{place}: all messages must have non-empty content")  # F
        self._check_no_empty_text(content, f"{place}.content")
        for index, block in enumerate(_blocks(message)):
            wanted = _BLOCK_ROLES.get(block["type"], role)
            if wanted != role:  # F; A for tool changes
                blocks = f"`{block['type']}` blocks can only be in `{wanted}` messages"
                raise Refusal(f"{place}.content.{index}: {blocks}")
            if block["type"] == "tool_result":
                inner = f"{place}.content.{index}.content"
                self._check_no_empty_text(block.get("content"), inner)

    def _check_results(self, message: Json, open_calls: set[str], place: str) -> None:
        """B: every result in the user message right after the calls, before any other block."""
        kinds = [block["type"] for block in _blocks(message)]
        results = [b["tool_use_id"] for b in _blocks(message) if b["type"] == "tool_result"]
        if missing := open_calls - set(results):
            raise Refusal(f"{place}: {_UNANSWERED}: {', '.join(sorted(missing))}")
        if unknown := set(results) - open_calls:
            raise Refusal(
                f"{place}: unexpected `tool_use_id` in `tool_result`: {min(unknown)}"
            )  # F
        if len(results) != len(open_calls):
            raise Refusal(f"{place}: each tool_use must have a single result")  # F
        if "tool_result" in kinds[len(results) :]:
            raise Refusal(f"{place}: tool_result blocks must come first in the content")

    def _check_calls(self, message: Json, place: str) -> set[str]:
        calls = [block for block in _blocks(message) if block["type"] == "tool_use"]
        for call in calls:
            if call["id"] in self.call_ids:
                raise Refusal(f"{place}: `tool_use` ids must be unique: {call['id']}")  # F
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", call["id"]):  # F
                raise Refusal(f"{place}: tool_use.id: {call['id']!r} must match ^[a-zA-Z0-9_-]+$")
            if call["name"] not in self.available and not self.rules.unavailable_calls:
                raise Refusal(
                    f"{place}: tool_use of {call['name']!r}, which is not available there"
                )
            self.call_ids.add(call["id"])
        return {call["id"] for call in calls}

    def _load_references(self, message: Json, place: str) -> None:
        """C: a result's `tool_reference` loads a deferred tool."""
        for block in _blocks(message):
            parts = block.get("content") if block["type"] == "tool_result" else ()
            for part in parts if isinstance(parts, list) else ():
                if part["type"] == "tool_reference":
                    if (name := part["tool_name"]) not in self.definitions:
                        text = f"Tool reference {name!r} has no corresponding tool definition"
                        raise Refusal(f"{place}: {text}")
                    self.available.add(name)

    def _check_system_message(self, index: int, place: str) -> None:
        message = self.messages[index]
        self._check_system_betas(message, place)
        self._check_placement(index, place)
        if message.get("clear_at") == "next_user_message":
            self._check_turn_scoped(message, place)
        for number, block in enumerate(_blocks(message)):
            if block["type"] == "tool_addition":
                self._add(block, f"{place}.content.{number}")
            elif block["type"] == "tool_removal":
                self._remove(block, f"{place}.content.{number}")

    def _check_system_betas(self, message: Json, place: str) -> None:
        for key, beta in (("output_config", OUTPUT_CONFIG), ("clear_at", CLEAR_AT)):
            if key in message and beta not in self.betas:
                raise Refusal(f"{place}.{key}: Extra inputs are not permitted (beta {beta})")

    def _check_placement(self, index: int, place: str) -> None:
        """A, "Limitations": consecutive system messages are judged together."""
        before = next((m for m in self.messages[:index][::-1] if m["role"] != "system"), None)
        after = next((m for m in self.messages[index + 1 :] if m["role"] != "system"), None)
        server_result = before is not None and _ends_in_server_result(before)
        if before is None or not (before["role"] == "user" or server_result):
            text = "a 'user' message or an 'assistant' message ending in a server tool result"
            raise Refusal(f"{place}: role 'system' must follow {text}")
        if after is not None and after["role"] != "assistant":
            text = "role 'system' must precede an 'assistant' message or end the array"
            raise Refusal(f"{place}: {text}")
        changes = [b for b in _blocks(self.messages[index]) if b["type"] != "text"]
        if server_result and changes:
            raise Refusal(f"{place}: no tool change directly after a paused assistant turn")

    def _check_turn_scoped(self, message: Json, place: str) -> None:
        end = "a turn-scoped system message (clear_at: 'next_user_message')"
        if any(block["type"] != "text" for block in _blocks(message)):
            raise Refusal(f"{place}: {end} supports text blocks only")
        if message.get("output_config") is not None:
            raise Refusal(f"{place}: output_config is not permitted on {end}")
        if any(block.get("cache_control") for block in _blocks(message)):
            raise Refusal(f"{place}: cache_control is not permitted on {end}")

    def _add(self, block: Json, place: str) -> None:
        tool = block["tool"]
        if tool["type"] != "tool_definition":
            self._check_reference(tool, place)
            self.available.add(tool["name"])
            return
        definition = tool["definition"]
        if INLINE_TOOLS not in self.betas:
            raise Refusal(f"{place}: a tool_definition needs the beta {INLINE_TOOLS}")
        if "name" not in definition:
            raise Refusal(f"{place}: this server has no MCP servers: {definition['type']}")
        self._check_definition(definition, place)
        if block.get("cache_control") and definition.get("cache_control"):
            raise Refusal(
                f"{place}: cache_control goes on the block or in the definition, not both"
            )
        name = definition["name"]
        earlier = self.definitions.get(name) if name in self.available else None
        if earlier is not None and _kind(earlier) != _kind(definition):
            raise Refusal(f"{place}: tool_name_conflict: {name!r} is a tool of another kind")
        if earlier not in (None, definition) and not self.rules.anthropic_redefinition:
            raise Refusal(f"{place}: {name!r} is available already, with another definition")
        self._define(definition)

    def _remove(self, block: Json, place: str) -> None:
        self._check_reference(block["tool"], place)
        if (name := block["tool"].get("name")) not in self.available:
            raise Refusal(f"{place}: tool_removal of {name!r}, which is not available there")  # A
        self.available.discard(name)

    def _check_reference(self, tool: Json, place: str) -> None:
        if not self.betas & {TOOL_CHANGES, INLINE_TOOLS}:
            raise Refusal(f"{place}: a tool change needs the beta {INLINE_TOOLS} or {TOOL_CHANGES}")
        if tool["type"] != "tool_reference":
            raise Refusal(f"{place}: this server has no MCP servers: {tool['type']}")
        if tool["name"] not in self.definitions:
            text = "tool_addition/tool_removal references unknown tool"
            raise Refusal(f"{place}: tool_reference_unresolved: {text} {tool['name']!r}")

    def _check_end(self, open_calls: set[str]) -> None:
        last = self.messages[-1]
        if open_calls:
            raise Refusal(f"messages: {_UNANSWERED}: {', '.join(sorted(open_calls))}")
        if last["role"] == "assistant" and not _ends_in_server_result(last):  # E: prefill
            raise Refusal("This model does not support assistant message prefill. End with 'user'.")


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _kind(tool: Json) -> str:
    """A: a newer version of a tool is no other kind; `custom` where the type is absent."""
    return re.sub(r"_\d{8}$", "", tool.get("type") or "custom")


def _ends_in_server_result(message: Json) -> bool:
    blocks = _blocks(message)
    return (
        message["role"] == "assistant"
        and bool(blocks)
        and blocks[-1]["type"].endswith("_tool_result")
    )


def _cache_controls(value: Any) -> Iterator[Json]:
    if isinstance(value, list):
        for item in value:
            yield from _cache_controls(item)
    elif isinstance(value, dict):
        if value.get("cache_control"):
            yield value["cache_control"]
        for key, item in value.items():
            if key not in _FREE_FORM:
                yield from _cache_controls(item)
