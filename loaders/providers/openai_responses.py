"""OpenAI's responses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ...errors import RequestError
from ..own_tools import SEARCH_TOOL
from .provider import (
    MIN_NAME_LENGTH,
    Function,
    LoadedFunction,
    Provider,
    SearchContent,
    Way,
    provider_name,
)
from .reply import (
    CallAnswer,
    CallKind,
    Messages,
    ModelCall,
    Reply,
    joined_texts,
    sent_blocks,
    text_field,
    without_fields,
)

#: Fields of a reply that the API does not take back.
_OUTPUT_ONLY = frozenset({"parsed", "parsed_arguments", "parsed_output"})


class OpenAIResponses(Provider):
    """Items of `input`. The API caches prompts without cache breakpoints.

    It says nothing about a name that is defined twice, and items that remove do not exist. So a
    changed definition follows as text, and a removal is a line of text.
    """

    name: ClassVar[str] = "openai_responses"
    ways: ClassVar[tuple[Way, ...]] = ("call_tool", "append", "search", "list")
    name_length: ClassVar[int | None] = MIN_NAME_LENGTH
    search_call: ClassVar[CallKind] = "search"

    def function(self, name: str, description: str, schema: Mapping[str, Any]) -> Function:
        """A function tool. Strict schemas, the API's default, allow no optional arguments."""
        parameters = {"type": "object", "properties": {}} | dict(schema)
        return {
            "type": "function",
            "strict": False,
            "name": name,
            "description": description,
            "parameters": parameters,
        }

    def search_entry(self) -> Function:
        """The API's tool search, which the client runs."""
        return {
            "type": "tool_search",
            "execution": "client",
            "description": SEARCH_TOOL.description,
            "parameters": SEARCH_TOOL.input_schema,
        }

    def note(self, text: str, way: Way) -> dict[str, Any]:  # noqa: ARG002
        """A system message."""
        return {"role": "system", "content": text}

    def additions(
        self,
        loaded: Sequence[LoadedFunction],
        *,
        removed: Sequence[str],  # noqa: ARG002 - told in a line of text
        restored: Sequence[str],  # noqa: ARG002 - the same
    ) -> Messages:
        """An item `additional_tools`."""
        tools = [tool.function for tool in loaded]
        return [{"type": "additional_tools", "role": "developer", "tools": tools}] if tools else []

    def search_exchange(self, call_id: str, loaded: Sequence[LoadedFunction]) -> Messages:
        """A search call and its output."""
        call = {
            "type": "tool_search_call",
            "call_id": call_id,
            "execution": "client",
            "status": "completed",
            "arguments": {"query": "tools for this turn"},
        }
        return [call, _search_output(call_id, _namespaces(loaded))]

    def search_content(self, loaded: Sequence[LoadedFunction], text: str) -> SearchContent:
        """The definitions, grouped by server; the text alone if there are none."""
        return _namespaces(loaded) or text

    def request(
        self,
        system: str,
        tools: Sequence[Function],
        messages: Messages,
        way: Way,
    ) -> dict[str, Any]:
        """`instructions`, `input` and `tools`. A tool that is in `tools` is not added again."""
        request = {"instructions": system, "tools": list(tools)}
        if way == "append":
            messages = _without_repeated_tools(messages, tools)
        return {name: value for name, value in request.items() if value} | {"input": messages}

    def read_reply(self, value: object) -> Reply | None:
        """A response with its output, or the list of output items."""
        output = value.get("output") if isinstance(value, Mapping) else value
        if not isinstance(output, list) or (output is value and not _are_items(output)):
            return None
        calls, items, texts = [], [], []
        for index, item in enumerate(output):
            if not isinstance(item, Mapping):
                raise RequestError(f"reply: output[{index}]: an object, not {type(item).__name__}")
            place, kind = f"output[{index}]", item.get("type")
            if kind in ("function_call", "custom_tool_call"):
                is_custom = kind == "custom_tool_call"
                arguments = item.get("input" if is_custom else "arguments")
                name = text_field(item, "name", place)
                call_kind: CallKind = "custom" if is_custom else "function"
                call_id = text_field(item, "call_id", place)
                calls.append(ModelCall(call_id, name, arguments, call_kind))
            elif kind == "tool_search_call" and item.get("execution") == "client":
                call_id = text_field(item, "call_id", place)
                calls.append(ModelCall(call_id, SEARCH_TOOL.name, item.get("arguments"), "search"))
            elif kind == "message":
                texts.append(joined_texts(item.get("content"), "output_text"))
            sent = without_fields(item, _OUTPUT_ONLY)
            if isinstance(content := sent.get("content"), list):
                sent["content"] = sent_blocks(content, _OUTPUT_ONLY)
            items.append(sent)
        return Reply(self.name, items, tuple(calls), "".join(texts))

    def answers(self, answers: Sequence[CallAnswer]) -> Messages:
        """An output for each call. That of a search has definitions only: its text follows."""
        outputs, notes = [], []
        for answer in answers:
            call_id, content = answer.call.id, answer.content
            if answer.call.kind == "search":
                tools = content if isinstance(content, list) else []
                outputs.append(_search_output(call_id, tools))
                if content and isinstance(content, str):
                    notes.append({"role": "system", "content": content})
            else:
                is_custom = answer.call.kind == "custom"
                kind = "custom_tool_call_output" if is_custom else "function_call_output"
                outputs.append({"type": kind, "call_id": call_id, "output": content})
        return [*outputs, *notes]


def _without_repeated_tools(messages: Messages, tools: Sequence[Function]) -> Messages:
    """The items, without additions of tools that are declared before them.

    There are such additions where the list of tools was written again.
    """
    declared = {tool.get("name") for tool in tools}
    kept: Messages = []
    for item in messages:
        if item.get("type") != "additional_tools":
            kept.append(item)
            continue
        added = [tool for tool in item["tools"] if tool["name"] not in declared]
        declared |= {tool["name"] for tool in added}
        if added:
            kept.append({**item, "tools": added})
    return kept


def _are_items(output: Sequence[Any]) -> bool:
    return bool(output) and all(
        isinstance(item, Mapping) and isinstance(item.get("type"), str) for item in output
    )


def _search_output(call_id: str, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The item that answers a search call."""
    return {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": list(tools),
    }


def _namespaces(loaded: Iterable[LoadedFunction]) -> list[dict[str, Any]]:
    """The functions: a namespace for each server, then functions without a server."""
    servers: dict[str, list[Function]] = {}
    for tool in loaded:
        servers.setdefault(tool.server, []).append({**tool.function, "defer_loading": True})
    without_server = servers.pop("", [])
    return [
        *(
            {
                "type": "namespace",
                "name": provider_name(server),
                "description": f"Tools of {server}.",
                "tools": functions,
            }
            for server, functions in servers.items()
        ),
        *without_server,
    ]
