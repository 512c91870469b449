"""Replies of a scripted model in the form of each provider: one JSON object, or events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from .definition_rules import Json

_CHUNK = 7
"""Characters in one event of a stream: most texts and arguments arrive in several."""


@dataclass(frozen=True)
class Call:
    """A tool call. Without an id, the server numbers it. Arguments as text are sent as they are."""

    name: str
    arguments: Json | str = field(default_factory=dict)
    id: str = ""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class ToolSearch:
    """A call of the client's tool search of Responses (`tool_search_call`)."""

    arguments: Json
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """What the model answers: a text, calls, or both, the text first.

    Example:
        >>> Reply("I look it up.", [Call("get_time", {"city": "Oslo"}), Call("get_date")])
    """

    text: str = ""
    calls: list[Call | ToolSearch] = field(default_factory=list)


@dataclass(frozen=True)
class Turn:
    """A reply to one request: its number, and the namespaces of the tools of Responses."""

    reply: Reply
    number: int
    namespaces: dict[str, str | None]

    def calls(self) -> Iterator[tuple[str, Call | ToolSearch]]:
        """Each call with its id."""
        for index, call in enumerate(self.reply.calls):
            yield call.id or f"call_{self.number}_{index}", call


def message_object(turn: Turn, model: str) -> Json:
    """Anthropic's Message."""
    content: list[Json] = []
    if turn.reply.text:
        content.append({"type": "text", "text": turn.reply.text, "citations": None})
    for call_id, call in turn.calls():
        assert isinstance(call, Call), "tool_search_call is an item of Responses"
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": arguments})
    return {
        "id": f"msg_{turn.number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if turn.reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def message_events(turn: Turn, model: str) -> Iterator[Json]:
    """The events of Anthropic's stream."""
    message = message_object(turn, model)
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None},
    }
    texts = [turn.reply.text] if turn.reply.text else []
    texts += [call.text for _, call in turn.calls() if isinstance(call, Call)]
    for index, (block, text) in enumerate(zip(message["content"], texts, strict=True)):
        is_text = block["type"] == "text"
        start = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for part in _chunks(text):
            delta = (
                {"type": "text_delta", "text": part}
                if is_text
                else {"type": "input_json_delta", "partial_json": part}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {key: message[key] for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def completion_object(turn: Turn, model: str) -> Json:
    """OpenAI's ChatCompletion."""
    message: Json = {"role": "assistant", "content": turn.reply.text or None, "refusal": None}
    if calls := [_chat_call(call_id, call) for call_id, call in turn.calls()]:
        message["tool_calls"] = calls
    finish = "tool_calls" if turn.reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {**_chat_head(turn, model, "chat.completion"), "choices": [choice], "usage": usage}


def completion_events(turn: Turn, model: str) -> Iterator[Json]:
    """The chunks of OpenAI's chat completions stream."""
    head = _chat_head(turn, model, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if turn.reply.text else None})
    for part in _chunks(turn.reply.text):
        yield chunk({"content": part})
    for index, (call_id, call) in enumerate(turn.calls()):
        start = _chat_call(call_id, call)
        text = start["function"].pop("arguments")
        start["function"]["arguments"] = ""
        yield chunk({"tool_calls": [{"index": index, **start}]})
        for part in _chunks(text):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if turn.reply.calls else "stop")


def _chat_head(turn: Turn, model: str, kind: str) -> Json:
    return {"id": f"chatcmpl_{turn.number}", "object": kind, "created": 1, "model": model}


def _chat_call(call_id: str, call: Call | ToolSearch) -> Json:
    assert isinstance(call, Call), "tool_search_call is an item of Responses"
    function = {"name": call.name, "arguments": call.text}
    return {"id": call_id, "type": "function", "function": function}


def response_object(turn: Turn, model: str) -> Json:
    """OpenAI's Response."""
    output = [_call_item(turn, call_id, call) for call_id, call in turn.calls()]
    if turn.reply.text:
        part = {"type": "output_text", "text": turn.reply.text, "annotations": [], "logprobs": []}
        output.insert(0, _message_item(turn, "completed", [part]))
    return _response(turn, model, "completed", output)


def response_events(turn: Turn, model: str) -> Iterator[Json]:
    """The events of OpenAI's Responses stream."""
    for number, event in enumerate(_response_events(turn, model)):
        yield {**event, "sequence_number": number}


def _response_events(turn: Turn, model: str) -> Iterator[Json]:
    started = _response(turn, model, "in_progress", [])
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    finished = response_object(turn, model)
    for index, item in enumerate(finished["output"]):
        place = {"item_id": item["id"], "output_index": index}
        start = {**item, "status": "in_progress"}
        if item["type"] == "message":
            start["content"] = []
        elif item["type"] == "function_call":
            start["arguments"] = ""
        yield {"type": "response.output_item.added", "output_index": index, "item": start}
        if item["type"] == "message":
            yield from _text_events(item["content"][0], {**place, "content_index": 0})
        elif item["type"] == "function_call":
            name = "response.function_call_arguments"
            for part in _chunks(item["arguments"]):
                yield {"type": f"{name}.delta", "delta": part, **place}
            whole = {"name": item["name"], "arguments": item["arguments"]}
            yield {"type": f"{name}.done", **whole, **place}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": finished}


def _text_events(part: Json, place: Json) -> Iterator[Json]:
    yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **place}
    for text in _chunks(part["text"]):
        yield {"type": "response.output_text.delta", "delta": text, "logprobs": [], **place}
    yield {"type": "response.output_text.done", "text": part["text"], "logprobs": [], **place}
    yield {"type": "response.content_part.done", "part": part, **place}


def _response(turn: Turn, model: str, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{turn.number}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _message_item(turn: Turn, status: str, content: list[Json]) -> Json:
    head = {"type": "message", "id": f"msg_{turn.number}", "role": "assistant"}
    return {**head, "status": status, "content": content}


def _call_item(turn: Turn, call_id: str, call: Call | ToolSearch) -> Json:
    head = {"call_id": call_id, "status": "completed"}
    if isinstance(call, ToolSearch):
        item = {"type": "tool_search_call", "id": f"tsc_{call_id}", "execution": "client"}
        return {**item, **head, "arguments": call.arguments}
    item = {"type": "function_call", "id": f"fc_{call_id}", "name": call.name}
    if (namespace := turn.namespaces.get(call.name)) is not None:
        item["namespace"] = namespace
    return {**item, **head, "arguments": call.text}


def _chunks(text: str) -> list[str]:
    return [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
