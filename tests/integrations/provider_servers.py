"""Servers that answer as a provider's API does, from a script, and refuse what it refuses.

A script is a list of replies. A reply is a text, or a list of calls: the id of a tool, and its
arguments as an object or as text. A tool that is not in the list of the request is called through
`call_tool`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from shortlist.loaders.render.provider_tools import provider_name

Calls = list[tuple[str, Any]]


class ProviderError(Exception):
    """What the real API answers with status 400."""


class Provider:
    """A provider's API: checks each request, and answers with the next reply of its script."""

    path: str
    prefix: tuple[str, ...]
    """Fields of a request that its cache covers first."""

    def __init__(self) -> None:
        self.script: list[str | Calls] = []
        self.requests: list[dict[str, Any]] = []

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        names = self.tool_names(request)
        if len(set(names)) != len(names):
            raise ProviderError("tools: names must be unique")
        if request.get("tools") == []:
            raise ProviderError("tools: an empty list")
        self.check(request)
        step = self.script.pop(0)
        if isinstance(step, str):
            return self.reply([], step)
        calls = []
        for tool_id, arguments in step:
            name = provider_name(tool_id, 64)
            if name not in names:
                name, arguments = "call_tool", {"tool": tool_id, "arguments": arguments}
            assert name in names
            calls.append((f"call_{len(self.requests)}_{len(calls)}", name, arguments))
        return self.reply(calls, "")

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def check(self, request: dict[str, Any]) -> None:
        raise NotImplementedError

    def reply(self, calls: list[tuple[str, str, Any]], text: str) -> dict[str, Any]:
        raise NotImplementedError

    def answers(self) -> dict[str, str]:
        """Id of each call to its answer, in the last request."""
        raise NotImplementedError


def as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class Chat(Provider):
    """https://platform.openai.com/docs/api-reference/chat/create"""

    path = "/chat/completions"
    prefix = ("tools",)

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        return [tool["function"]["name"] for tool in request.get("tools", ())]

    def check(self, request: dict[str, Any]) -> None:
        waiting: list[str] = []
        for message in request["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    raise ProviderError("a tool message must answer a call of the message before")
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                raise ProviderError(f"calls must be answered at once: {waiting}")
            if unknown := message.keys() - {"role", "content", "tool_calls", "refusal", "name"}:
                raise ProviderError(f"unknown parameter: {unknown}")
            for call in message.get("tool_calls", ()):
                if call.keys() != {"id", "type", "function"}:
                    raise ProviderError(f"unknown parameter: {call.keys()}")
                waiting.append(call["id"])
        if waiting:
            raise ProviderError(f"calls must be answered: {waiting}")

    def reply(self, calls: list[tuple[str, str, Any]], text: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": n, "arguments": as_text(a)}}
                for id_, n, a in calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        return {**head, "choices": [choice]}

    def answers(self) -> dict[str, str]:
        messages = self.requests[-1]["messages"]
        return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}


class Responses(Provider):
    """https://platform.openai.com/docs/api-reference/responses/create"""

    path = "/responses"
    prefix = ("tools",)

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        for tool in request.get("tools", ()):
            if tool["type"] != "function" or "parameters" not in tool:
                raise ProviderError("tools: a function needs parameters")
        return [tool["name"] for tool in request.get("tools", ())]

    def check(self, request: dict[str, Any]) -> None:
        waiting: list[str] = []
        for item in request["input"]:
            kind = item.get("type", "message")
            if kind == "function_call":
                if "parsed_arguments" in item:
                    raise ProviderError("unknown parameter: parsed_arguments")
                waiting.append(item["call_id"])
            elif kind == "function_call_output":
                if item["call_id"] not in waiting:
                    raise ProviderError("no tool call found for the output")
                waiting.remove(item["call_id"])
            elif kind == "reasoning" and item.get("status", "x") is None:
                raise ProviderError("unknown parameter: status")
        if waiting:
            raise ProviderError(f"no tool output found for {waiting}")

    def reply(self, calls: list[tuple[str, str, Any]], text: str) -> dict[str, Any]:
        output: list[dict[str, Any]] = [
            {"type": "reasoning", "id": f"rs_{len(self.requests)}", "summary": []}
        ]
        for id_, name, arguments in calls:
            call = {"type": "function_call", "id": f"fc_{id_}", "call_id": id_, "name": name}
            output.append({**call, "arguments": as_text(arguments), "status": "completed"})
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            message = {"type": "message", "id": "msg", "role": "assistant", "status": "completed"}
            output.append({**message, "content": [part]})
        head = {"id": "resp", "object": "response", "created_at": 1, "model": "m", "tools": []}
        return {**head, "output": output, "parallel_tool_calls": True, "tool_choice": "auto"}

    def answers(self) -> dict[str, str]:
        items = self.requests[-1]["input"]
        outputs = [item for item in items if item.get("type") == "function_call_output"]
        return {item["call_id"]: item["output"] for item in outputs}


class Messages(Provider):
    """https://docs.anthropic.com/en/api/messages"""

    path = "/v1/messages"
    prefix = ("tools", "system")

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in request.get("tools", ())]

    def check(self, request: dict[str, Any]) -> None:
        waiting: list[str] = []
        for message in request["messages"]:
            blocks = message["content"]
            if not blocks:
                raise ProviderError("messages must have content")
            blocks = [] if isinstance(blocks, str) else blocks
            results = [block for block in blocks if block["type"] == "tool_result"]
            if waiting and [block["tool_use_id"] for block in results] != waiting:
                raise ProviderError(f"tool_use without tool_result right after it: {waiting}")
            waiting = []
            for block in blocks:
                if block["type"] == "tool_use":
                    if not isinstance(block["input"], dict):
                        raise ProviderError("tool_use.input: must be an object")
                    waiting.append(block["id"])
                if "parsed_output" in block:
                    raise ProviderError("parsed_output: extra inputs are not permitted")

    def reply(self, calls: list[tuple[str, str, Any]], text: str) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        for id_, name, arguments in calls:
            # Arguments that were cut off arrive as what could be read of them.
            given = arguments if isinstance(arguments, dict) else {}
            if isinstance(given.get("arguments"), str):
                given = {**given, "arguments": {}}
            content.append({"type": "tool_use", "id": id_, "name": name, "input": given})
        head = {"id": "msg", "type": "message", "role": "assistant", "model": "m"}
        end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        return {**head, **end, "content": content, "usage": {"input_tokens": 1, "output_tokens": 1}}

    def answers(self) -> dict[str, str]:
        messages = [m["content"] for m in self.requests[-1]["messages"] if m["role"] == "user"]
        blocks = [block for content in messages if isinstance(content, list) for block in content]
        results = [block for block in blocks if block["type"] == "tool_result"]
        return {block["tool_use_id"]: block["content"] for block in results}


@contextmanager
def serving(provider: Provider) -> Iterator[str]:
    """The address of a running server of a provider."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, answer = 404, {"error": {"message": self.path}}
            if self.path == provider.path:
                try:
                    status, answer = 200, provider.handle(request)
                except (ProviderError, AssertionError, KeyError) as error:
                    status, answer = 400, {"error": {"message": repr(error), "type": "invalid"}}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the tests quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
