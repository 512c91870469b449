"""A model's reply in any provider's form: its calls, its text, and how the calls are answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..catalog.mcp_listing import is_pydantic_model
from ..errors import RequestError
from ..loaders.render import SEARCH_TOOL, renderer_for
from ..loaders.render.deferred_tools import search_output
from ..loaders.render.renderer import SearchContent

Messages = list[dict[str, Any]]
CallKind: TypeAlias = Literal["function", "custom", "search"]

_ACCEPTED_REPLIES = (
    "a reply of OpenAI's chat completions or responses, or of Anthropic's messages, as the object "
    "of the provider's package or as a dict; of a stream, its final object"
)
#: Fields of a reply that the provider's API does not take back.
_CHAT_OUTPUT_ONLY = frozenset({"annotations", "function_call", "parsed"})
_CALL_OUTPUT_ONLY = frozenset({"index", "parsed_arguments"})
_BLOCK_OUTPUT_ONLY = frozenset({"parsed", "parsed_arguments", "parsed_output"})


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call in a reply.

    Args:
        id: id of the call, which its answer repeats.
        name: the name that the model called.
        arguments: the arguments as the provider gives them.
        kind: `function`; `custom` for a custom tool of OpenAI, which takes text; `search` for the
            tool search of OpenAI's responses.
    """

    id: str
    name: str
    arguments: object
    kind: CallKind = "function"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one call.

    Args:
        call: the call.
        content: a text, or a list of the provider's content blocks.
        ok: whether the call ran and succeeded.
    """

    call: ModelCall
    content: str | list[Any]
    ok: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply.

    Args:
        provider: `openai` (chat completions), `openai_responses` or `anthropic`.
        messages: the reply as messages of the conversation, in the form that the API takes back.
        calls: its calls, in order.
        text: its text.
        is_paused: whether the provider stopped in the middle and waits to be called again.
    """

    provider: str
    messages: Messages
    calls: tuple[ModelCall, ...]
    text: str
    is_paused: bool = False

    def answer(self, answers: Sequence[CallAnswer]) -> Messages:
        """The messages that answer the calls, one answer for each call, in order."""
        return _ANSWER_WRITERS[self.provider](answers)


def read_reply(reply: object) -> Reply:
    """A reply from a provider's object, a dict, or the list of output items of OpenAI's responses.

    Raises:
        RequestError: it is nothing of the kind.
    """
    value = _plain(reply)
    if isinstance(value, list) and value and all(_has_type(item) for item in value):
        return _responses_reply(value)
    if isinstance(value, Mapping):
        if isinstance(choices := value.get("choices"), list):
            message = choices[0].get("message") if choices and _is_object(choices[0]) else None
            if not isinstance(message, Mapping):
                raise RequestError("reply: its `choices` have no message")
            return _chat_reply(message)
        if isinstance(output := value.get("output"), list):
            return _responses_reply(output)
        if value.get("role") == "assistant":
            content = value.get("content")
            if isinstance(content, list) and "tool_calls" not in value:
                return _anthropic_reply(content, value.get("stop_reason") == "pause_turn")
            return _chat_reply(value)
    raise RequestError(f"reply: {_ACCEPTED_REPLIES}; not {type(reply).__name__}")


def _plain(reply: object) -> object:
    """A provider's object as JSON values, without fields that are null."""
    if is_pydantic_model(reply):
        return reply.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    if isinstance(reply, Mapping):
        return {name: _plain(value) for name, value in reply.items()}
    if isinstance(reply, list | tuple):
        return [_plain(value) for value in reply]
    return reply


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _has_type(value: object) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _without(value: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in fields and item is not None}


def _field(value: Mapping[str, Any], name: str, place: str) -> str:
    """A text field that a call must have.

    Raises:
        RequestError: it is missing or no text.
    """
    field = value.get(name)
    if not isinstance(field, str):
        raise RequestError(f"reply: {place}.{name}: a text, not {type(field).__name__}")
    return field


def _texts(parts: object, kinds: tuple[str, ...]) -> str:
    """The texts of content parts of these kinds, joined."""
    if isinstance(parts, str):
        return parts
    texts = [
        str(part.get("text") or "")
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, Mapping) and part.get("type") in kinds
    ]
    return "".join(texts)


def _chat_reply(message: Mapping[str, Any]) -> Reply:
    calls, rows = [], []
    for index, row in enumerate(message.get("tool_calls") or ()):
        place = f"tool_calls[{index}]"
        if not isinstance(row, Mapping):
            raise RequestError(f"reply: {place}: an object, not {type(row).__name__}")
        kind = "custom" if isinstance(row.get("custom"), Mapping) else "function"
        function = row.get(kind)
        if not isinstance(function, Mapping):
            raise RequestError(f"reply: {place}: has no `function`")
        arguments = function.get("input" if kind == "custom" else "arguments")
        name = _field(function, "name", f"{place}.{kind}")
        call_kind: CallKind = "custom" if kind == "custom" else "function"
        calls.append(ModelCall(_field(row, "id", place), name, arguments, call_kind))
        row = _without(row, _CALL_OUTPUT_ONLY)
        rows.append({"type": kind, **row, kind: _without(function, _CALL_OUTPUT_ONLY)})
    sent = _without(message, _CHAT_OUTPUT_ONLY) | {"role": "assistant"}
    sent.setdefault("content", None)
    if isinstance(audio := sent.get("audio"), Mapping):
        sent["audio"] = {"id": audio.get("id")}
    sent.pop("tool_calls", None)
    if rows:
        sent["tool_calls"] = rows
    return Reply("openai", [sent], tuple(calls), _texts(message.get("content"), ("text",)))


def _responses_reply(output: Sequence[Any]) -> Reply:
    calls, items, texts = [], [], []
    for index, item in enumerate(output):
        if not isinstance(item, Mapping):
            raise RequestError(f"reply: output[{index}]: an object, not {type(item).__name__}")
        place, kind = f"output[{index}]", item.get("type")
        if kind in ("function_call", "custom_tool_call"):
            is_custom = kind == "custom_tool_call"
            arguments = item.get("input" if is_custom else "arguments")
            name = _field(item, "name", place)
            call_kind: CallKind = "custom" if is_custom else "function"
            calls.append(ModelCall(_field(item, "call_id", place), name, arguments, call_kind))
        elif kind == "tool_search_call" and item.get("execution") == "client":
            call_id = _field(item, "call_id", place)
            calls.append(ModelCall(call_id, SEARCH_TOOL.name, item.get("arguments"), "search"))
        elif kind == "message":
            texts.append(_texts(item.get("content"), ("output_text",)))
        sent = _without(item, _BLOCK_OUTPUT_ONLY)
        if isinstance(content := sent.get("content"), list):
            sent["content"] = [_sent_block(part) for part in content]
        items.append(sent)
    return Reply("openai_responses", items, tuple(calls), "".join(texts))


def _anthropic_reply(content: Sequence[Any], is_paused: bool) -> Reply:
    calls = []
    for index, block in enumerate(content):
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            place = f"content[{index}]"
            name = _field(block, "name", place)
            calls.append(ModelCall(_field(block, "id", place), name, block.get("input")))
    message = {"role": "assistant", "content": [_sent_block(block) for block in content]}
    text = _texts(list(content), ("text",))
    return Reply("anthropic", [message], tuple(calls), text, is_paused)


def _sent_block(block: Any) -> Any:
    return _without(block, _BLOCK_OUTPUT_ONLY) if isinstance(block, Mapping) else block


def _chat_answers(answers: Sequence[CallAnswer]) -> Messages:
    return [
        {"role": "tool", "tool_call_id": answer.call.id, "content": answer.content}
        for answer in answers
    ]


def _responses_answers(answers: Sequence[CallAnswer]) -> Messages:
    outputs, notes = [], []
    for answer in answers:
        call_id, content = answer.call.id, answer.content
        if answer.call.kind == "search":
            # The output of a search has definitions only.
            outputs.append(search_output(call_id, content if isinstance(content, list) else []))
            notes += [{"role": "system", "content": content}] if isinstance(content, str) else []
        else:
            is_custom = answer.call.kind == "custom"
            kind = "custom_tool_call_output" if is_custom else "function_call_output"
            outputs.append({"type": kind, "call_id": call_id, "output": content})
    return [*outputs, *notes]


def _anthropic_answers(answers: Sequence[CallAnswer]) -> Messages:
    results: Messages = [
        {"type": "tool_result", "tool_use_id": answer.call.id, "content": answer.content}
        | ({} if answer.ok else {"is_error": True})
        for answer in answers
    ]
    # The API takes the results of all calls of a reply in one message.
    return [{"role": "user", "content": results}] if results else []


def search_answer(format: str, call_id: str, content: SearchContent) -> Messages:  # noqa: A002
    """The messages that answer a search of the model.

    Args:
        format: the session's format.
        call_id: id of the call, which the answer repeats.
        content: the result of the search.
    """
    renderer = renderer_for(format)
    call = ModelCall(call_id, SEARCH_TOOL.name, None, renderer.search_kind or "function")
    return _ANSWER_WRITERS[renderer.reply_providers[0]]([CallAnswer(call, content, ok=True)])


_ANSWER_WRITERS: Mapping[str, Callable[[Sequence[CallAnswer]], Messages]] = {
    "openai": _chat_answers,
    "openai_responses": _responses_answers,
    "anthropic": _anthropic_answers,
}
