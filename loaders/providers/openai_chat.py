"""OpenAI's chat completions; also the provider `text`, whose requests have no list of tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...errors import RequestError
from .provider import MIN_NAME_LENGTH, Function, Provider, Way
from .reply import (
    CallAnswer,
    CallKind,
    Messages,
    ModelCall,
    Reply,
    joined_texts,
    text_field,
    without_fields,
)

#: Fields of a reply that the API does not take back.
_OUTPUT_ONLY = frozenset({"annotations", "function_call", "parsed"})
_CALL_OUTPUT_ONLY = frozenset({"index", "parsed_arguments"})


class OpenAI(Provider):
    """Function tools. The API caches prompts without cache breakpoints."""

    name: ClassVar[str] = "openai"
    ways: ClassVar[tuple[Way, ...]] = ("call_tool", "list")
    name_length: ClassVar[int | None] = MIN_NAME_LENGTH

    def function(self, name: str, description: str, schema: Mapping[str, Any]) -> Function:
        """A function tool."""
        parameters = {"type": "object", "properties": {}} | dict(schema)
        function = {"name": name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}

    def note(self, text: str, way: Way) -> dict[str, Any]:  # noqa: ARG002
        """A system message."""
        return {"role": "system", "content": text}

    def request(
        self,
        system: str,
        tools: Sequence[Function],
        messages: Messages,
        way: Way,  # noqa: ARG002
    ) -> dict[str, Any]:
        """`messages`, with the system prompt first, and `tools`: the API refuses an empty list."""
        first = [{"role": "system", "content": system}] if system else []
        return {"messages": [*first, *messages]} | ({"tools": list(tools)} if tools else {})

    def read_reply(self, value: object) -> Reply | None:
        """A completion with `choices`, or its message: `content` is a text, or it has `tool_calls`.

        A message with a list of content blocks and without `tool_calls` is Anthropic's.
        """
        if not isinstance(value, Mapping):
            return None
        if isinstance(choices := value.get("choices"), list):
            first = choices[0] if choices else None
            message = first.get("message") if isinstance(first, Mapping) else None
            if not isinstance(message, Mapping):
                raise RequestError("reply: its `choices` have no message")
            return self._reply(message)
        is_message = value.get("role") == "assistant" and (
            "tool_calls" in value or not isinstance(value.get("content"), list)
        )
        return self._reply(value) if is_message else None

    def _reply(self, message: Mapping[str, Any]) -> Reply:
        calls, rows = [], []
        for index, row in enumerate(message.get("tool_calls") or ()):
            place = f"tool_calls[{index}]"
            if not isinstance(row, Mapping):
                raise RequestError(f"reply: {place}: an object, not {type(row).__name__}")
            kind: CallKind = "custom" if isinstance(row.get("custom"), Mapping) else "function"
            function = row.get(kind)
            if not isinstance(function, Mapping):
                raise RequestError(f"reply: {place}: has no `function`")
            arguments = function.get("input" if kind == "custom" else "arguments")
            name = text_field(function, "name", f"{place}.{kind}")
            calls.append(ModelCall(text_field(row, "id", place), name, arguments, kind))
            row = without_fields(row, _CALL_OUTPUT_ONLY)
            rows.append({"type": kind, **row, kind: without_fields(function, _CALL_OUTPUT_ONLY)})
        sent = without_fields(message, _OUTPUT_ONLY) | {"role": "assistant"}
        sent.setdefault("content", None)
        if isinstance(audio := sent.get("audio"), Mapping):
            sent["audio"] = {"id": audio.get("id")}
        sent.pop("tool_calls", None)
        if rows:
            sent["tool_calls"] = rows
        return Reply("openai", [sent], tuple(calls), joined_texts(message.get("content"), "text"))

    def answers(self, answers: Sequence[CallAnswer]) -> Messages:
        """A message with the role `tool` for each call."""
        return [
            {"role": "tool", "tool_call_id": answer.call.id, "content": answer.content}
            for answer in answers
        ]


class Text(OpenAI):
    """Texts about tools by their ids. The host passes them to a model of its own choice."""

    name: ClassVar[str] = "text"
    ways: ClassVar[tuple[Way, ...]] = ("call_tool",)
    name_length: ClassVar[int | None] = None
    has_list: ClassVar[bool] = False
