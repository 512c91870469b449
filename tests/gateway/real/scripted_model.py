"""A model on the loopback that follows a script, in the four protocols that clients speak.

It answers with the next call of its script until the conversation has the results of all calls.
Then it answers with a text. The requests show which definitions reach a model.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
#: The text that ends a conversation.
LAST_TEXT = "The script is done."


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the script.

    Args:
        tool: end of the tool's name, as clients put a prefix before it.
        arguments: of the call.
    """

    tool: str
    arguments: Mapping[str, Any]


@dataclass
class ScriptedModel:
    """A running model.

    Args:
        address: of the server, without a path.
        script: the calls, in order.
        requests: bodies of the requests that carried tools, oldest first.
    """

    address: str
    script: Sequence[Call]
    requests: list[Json] = field(default_factory=list)

    def definitions(self, marker: str) -> list[Json]:
        """Definitions with this text in the first request that had one of them."""
        for body in self.requests:
            if chosen := [tool for tool in tools_of(body) if marker in json.dumps(tool)]:
                return chosen
        return []

    def results(self) -> list[str]:
        """Results of tools in the last request, as texts."""
        return max((results_of(body) for body in self.requests), key=len, default=[])


def tools_of(body: Json) -> list[Json]:
    """The functions of a request, without the groups that they are in."""
    tools: list[Json] = []
    for tool in body.get("tools") or ():
        if "functionDeclarations" in tool:
            tools += tool["functionDeclarations"]
        elif tool.get("type") == "namespace":
            tools += [{**inner, "namespace": tool["name"]} for inner in tool["tools"]]
        else:
            tools.append(tool.get("function", tool))
    return tools


def results_of(body: Json) -> list[str]:
    """Texts of the results of tools in a request, oldest first."""
    results: list[Any] = []
    for message in body.get("messages") or ():
        if message["role"] == "tool":
            results.append(message["content"])
        elif isinstance(message.get("content"), list):
            results += [part for part in message["content"] if part.get("type") == "tool_result"]
    results += [
        item["output"]
        for item in _items(body.get("input"))
        if item.get("type") == "function_call_output"
    ]
    for content in body.get("contents") or ():
        results += [part for part in content["parts"] if "functionResponse" in part]
    return [json.dumps(result, ensure_ascii=False) for result in results]


def _items(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


@contextmanager
def scripted_model(script: Sequence[Call]) -> Iterator[ScriptedModel]:
    """A model that follows a script, on a free port."""
    model = ScriptedModel("", script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"data": [], "models": []}))

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(data) if data else {}
            if "count_tokens" in self.path or "countTokens" in self.path:
                counts = {"input_tokens": 1, "totalTokens": 1}
                self._send("application/json", json.dumps(counts))
                return
            if body.get("tools"):
                model.requests.append(body)
            is_streamed = bool(body.get("stream")) or "stream" in self.path
            events = _answer(self.path, _next_call(body, script))
            if is_streamed:
                self._send("text/event-stream", "".join(events[:-1]))
            else:
                self._send("application/json", events[-1])

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


def _next_call(body: Json, script: Sequence[Call]) -> tuple[Json, Call, int] | None:
    """The tool to call, and the call; None if the script is done or the tool is not there."""
    step = len(results_of(body))
    if step >= len(script):
        return None
    call = script[step]
    for tool in tools_of(body):
        if str(tool.get("name", "")).endswith(call.tool):
            return tool, call, step
    return None


def _answer(path: str, chosen: tuple[Json, Call, int] | None) -> list[str]:
    """Events of a streamed answer, and last the whole answer in one piece."""
    if "/responses" in path:
        return _responses(chosen)
    if "/messages" in path:
        return _messages(chosen)
    if "enerateContent" in path:
        return _gemini(chosen)
    return _chat(chosen)


def _event(body: Json, name: str | None = None) -> str:
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(body)}\n\n"


def _chat(chosen: tuple[Json, Call, int] | None) -> list[str]:
    if chosen is None:
        message: Json = {"role": "assistant", "content": LAST_TEXT}
        reason = "stop"
    else:
        tool, call, step = chosen
        function = {"name": tool["name"], "arguments": json.dumps(call.arguments)}
        entry = {"index": 0, "id": f"call_{step}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [entry]}
        reason = "tool_calls"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    base = {"id": "chat-1", "created": 1, "model": "scripted", "usage": usage}
    chunk = {**base, "object": "chat.completion.chunk"}
    whole = {
        **base,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    }
    return [
        _event({**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        _event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        "data: [DONE]\n\n",
        json.dumps(whole),
    ]


def _responses(chosen: tuple[Json, Call, int] | None) -> list[str]:
    if chosen is None:
        text = {"type": "output_text", "text": LAST_TEXT, "annotations": []}
        item: Json = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    else:
        tool, call, step = chosen
        item = {
            "id": f"fc_{step}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{step}",
            "name": tool["name"],
            "arguments": json.dumps(call.arguments),
        }
        if "namespace" in tool:
            item["namespace"] = tool["namespace"]
    details = {"cached_tokens": 0}
    usage = {
        "input_tokens": 1,
        "input_tokens_details": details,
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "scripted",
        "output": [item],
        "usage": usage,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
    }
    events = (
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )
    streamed = [
        _event({**event, "sequence_number": number}, event["type"])
        for number, event in enumerate(events)
    ]
    return [*streamed, json.dumps(whole)]


def _messages(chosen: tuple[Json, Call, int] | None) -> list[str]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    if chosen is None:
        start: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": LAST_TEXT}
        block: Json = {"type": "text", "text": LAST_TEXT}
        reason = "end_turn"
    else:
        tool, call, step = chosen
        block = {
            "type": "tool_use",
            "id": f"toolu_{step}",
            "name": tool["name"],
            "input": dict(call.arguments),
        }
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)}
        reason = "tool_use"
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }
    first = {**whole, "content": [], "stop_reason": None}
    ended = {"stop_reason": reason, "stop_sequence": None}
    events = (
        {"type": "message_start", "message": first},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )
    return [*(_event(event, str(event["type"])) for event in events), json.dumps(whole)]


def _gemini(chosen: tuple[Json, Call, int] | None) -> list[str]:
    part: Json = {"text": LAST_TEXT}
    if chosen is not None:
        tool, call, _ = chosen
        part = {"functionCall": {"name": tool["name"], "args": dict(call.arguments)}}
    whole = {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "scripted",
    }
    return [_event(whole), json.dumps(whole)]
