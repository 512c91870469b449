"""Replies of a model in every form: dicts, objects of the SDKs, and final objects of streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anthropic.types import Message, ParsedMessage
from openai.types.chat import ChatCompletion, ParsedChatCompletion
from openai.types.responses import ParsedResponse, Response

from shortlist.loaders.providers import PROVIDERS

Calls = list[tuple[str, Any]]
#: All providers with all their ways.
WAYS = [(provider.name, way) for provider in PROVIDERS.values() for way in provider.ways]


def way_name(way: tuple[str, str]) -> str:
    """Name of a case for one provider and way."""
    return " ".join(way)


def chat(calls: Calls, text: str | None = None, model: Any = None) -> Any:
    """A reply of OpenAI's chat completions."""
    listed = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": given}}
        for place, (name, arguments) in enumerate(calls)
        for given in [arguments if isinstance(arguments, str) else json.dumps(arguments)]
    ]
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    message |= {"tool_calls": listed} if listed else {}
    choice = {
        "index": 0,
        "finish_reason": "tool_calls" if listed else "stop",
        "logprobs": None,
        "message": message,
    }
    whole = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return whole if model is None else model.model_validate(whole)


def responses(calls: Calls, text: str | None = None, model: Any = None) -> Any:
    """A reply of OpenAI's responses, with a reasoning item before its calls."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    output += [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": f"call_{place}",
            "name": name,
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            "status": "completed",
        }
        for place, (name, arguments) in enumerate(calls)
    ]
    if text is not None:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
        output.append(message | {"status": "completed"})
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return whole if model is None else model.model_validate(whole)


def anthropic(calls: Calls, text: str | None = None, model: Any = None) -> Any:
    """A reply of Anthropic's messages, which gives arguments as objects."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text or "Let me see."}]
    content += [
        {"type": "tool_use", "id": f"call_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(calls)
    ]
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return whole if model is None else model.model_validate(whole)


#: Name of a form, to its provider and a function that makes a reply in it.
FORMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "chat dict": ("openai", chat),
    "chat object": ("openai", lambda *given: chat(*given, model=ChatCompletion)),
    "chat stream": ("openai", lambda *given: chat(*given, model=ParsedChatCompletion)),
    "chat message": ("openai", lambda *given: chat(*given)["choices"][0]["message"]),
    "responses dict": ("openai_responses", responses),
    "responses object": ("openai_responses", lambda *given: responses(*given, model=Response)),
    "responses stream": (
        "openai_responses",
        lambda *given: responses(*given, model=ParsedResponse),
    ),
    "responses items": ("openai_responses", lambda *given: responses(*given)["output"]),
    "anthropic dict": ("anthropic", anthropic),
    "anthropic object": ("anthropic", lambda *given: anthropic(*given, model=Message)),
    "anthropic stream": ("anthropic", lambda *given: anthropic(*given, model=ParsedMessage)),
}


def answers_by_call(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Id of a call to the content of its answer, in any provider's form."""
    found: dict[str, Any] = {}
    for message in messages:
        if message.get("role") == "tool":
            found[message["tool_call_id"]] = message["content"]
        elif message.get("type") == "function_call_output":
            found[message["call_id"]] = message["output"]
        elif message.get("role") == "user" and isinstance(message["content"], list):
            for block in message["content"]:
                if block["type"] == "tool_result":
                    found[block["tool_use_id"]] = block["content"]
    return found
