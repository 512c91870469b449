"""Servers that answer as a provider's API does, from a script, and refuse what it refuses.

A script is a list of replies. A reply is a text, or a list of calls: the id of a tool, and its
arguments as an object or as text. A tool that the model does not have is called through
`call_tool`. `SEARCH` in place of an id calls the search, with its query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from openai.types.responses import ResponseToolSearchOutputItemParamParam
from pydantic import TypeAdapter

from shortlist.loaders.render.provider_tools import provider_name

Calls = list[tuple[str, Any]]
SEARCH = "search_tools"


_OUTPUT: TypeAdapter[Any] = TypeAdapter(ResponseToolSearchOutputItemParamParam)


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
        callable_names = self.callable_names(request)
        for tool_id, arguments in step:
            name = provider_name(tool_id, 64)
            if tool_id == SEARCH:
                arguments = {"query": arguments} if isinstance(arguments, str) else arguments
            elif name not in callable_names:
                name, arguments = "call_tool", {"tool": tool_id, "arguments": arguments}
            assert name in callable_names, name
            calls.append((f"call_{len(self.requests)}_{len(calls)}", name, arguments))
        return self.reply(calls, "")

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        raise NotImplementedError

    def callable_names(self, request: dict[str, Any]) -> set[str]:
        """The names of the tools whose definitions the model reads."""
        return set(self.tool_names(request))

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
        names = []
        for tool in request.get("tools", ()):
            if tool["type"] == "tool_search":
                # https://developers.openai.com/api/docs/guides/tools-tool-search: a search that the
                # client runs has a schema of its own.
                if tool["execution"] != "client" or "parameters" not in tool:
                    raise ProviderError("tools: a search of the client needs parameters")
                names.append(SEARCH)
                continue
            if tool["type"] != "function" or "parameters" not in tool:
                raise ProviderError("tools: a function needs parameters")
            names.append(tool["name"])
        return names

    def callable_names(self, request: dict[str, Any]) -> set[str]:
        outputs = [item for item in request["input"] if item.get("type") == "tool_search_output"]
        return {*super().callable_names(request), *self.loaded_names(outputs)}

    def loaded_names(self, outputs: list[dict[str, Any]]) -> list[str]:
        names = []
        for output in outputs:
            # openai.types.responses: ResponseToolSearchOutputItemParam and NamespaceToolParam.
            _OUTPUT.validate_python(output)
            for tool in output["tools"]:
                if tool["type"] == "namespace":
                    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
                        raise ProviderError(f"namespace: invalid name {tool['name']}")
                    names += [function["name"] for function in tool["tools"]]
                else:
                    names.append(tool["name"])
        return names

    def check(self, request: dict[str, Any]) -> None:
        waiting: list[str] = []
        searches: list[str] = []
        listed = self.tool_names(request)
        for item in request["input"]:
            kind = item.get("type", "message")
            # openai.types.responses.ResponseToolSearchOutputItemParam: `call_id` is the "unique ID
            # of the tool search call generated by the model"; the guide (tools-tool-search) has the
            # output with `execution`: "client" and the call's id after each call.
            if kind == "tool_search_call":
                if SEARCH not in listed:
                    raise ProviderError("tool_search_call: no tool_search in tools")
                searches.append(item["call_id"])
            elif kind == "tool_search_output":
                if item.get("call_id") not in searches or item.get("execution") != "client":
                    raise ProviderError("no tool search call found for the output")
                searches.remove(item["call_id"])
                names = self.loaded_names([item])
                if len(set(names)) != len(names) or set(names) & set(listed):
                    raise ProviderError(f"tool_search_output: tools twice: {names}")
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
        if waiting or searches:
            raise ProviderError(f"no tool output found for {waiting or searches}")

    def reply(self, calls: list[tuple[str, str, Any]], text: str) -> dict[str, Any]:
        output: list[dict[str, Any]] = [
            {"type": "reasoning", "id": f"rs_{len(self.requests)}", "summary": []}
        ]
        kinds = {tool["type"] for tool in self.requests[-1].get("tools", ())}
        for id_, name, arguments in calls:
            if name == SEARCH and "tool_search" in kinds:
                call = {"type": "tool_search_call", "id": f"ts_{id_}", "call_id": id_}
                rest = {"execution": "client", "status": "completed", "arguments": arguments}
                output.append({**call, **rest})
                continue
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
        outputs = {
            item["call_id"]: item["output"]
            for item in items
            if item.get("type") == "function_call_output"
        }
        searches = [item for item in items if item.get("type") == "tool_search_output"]
        return outputs | {item["call_id"]: json.dumps(item["tools"]) for item in searches}


class Messages(Provider):
    """https://docs.anthropic.com/en/api/messages"""

    path = "/v1/messages"
    prefix = ("tools", "system")

    def tool_names(self, request: dict[str, Any]) -> list[str]:
        return [tool["name"] for tool in request.get("tools", ())]

    def callable_names(self, request: dict[str, Any]) -> set[str]:
        deferred = {tool["name"] for tool in request.get("tools", ()) if tool.get("defer_loading")}
        return {*self.tool_names(request)} - deferred | set(self.references(request))

    def references(self, request: dict[str, Any]) -> list[str]:
        """The names that results of tools refer to."""
        return [
            part["tool_name"]
            for message in request["messages"]
            for block in message["content"]
            if isinstance(block, dict) and isinstance(block.get("content"), list)
            for part in block["content"]
            if part["type"] == "tool_reference"
        ]

    def check(self, request: dict[str, Any]) -> None:
        waiting: list[str] = []
        # https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool, "Error
        # handling": both are answered with status 400.
        tools = request.get("tools", ())
        if tools and all(tool.get("defer_loading") for tool in tools):
            raise ProviderError("All tools have defer_loading set. At least one must not.")
        for name in self.references(request):
            if name not in self.tool_names(request):
                raise ProviderError(f"Tool reference '{name}' has no corresponding tool definition")
        # The API's message, quoted in github.com/anthropics/claude-code/issues/86743: "cannot have
        # both defer_loading=true and cache_control set".
        if any(tool.get("defer_loading") and "cache_control" in tool for tool in tools):
            raise ProviderError("tools: defer_loading and cache_control")
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
                except (ProviderError, AssertionError, KeyError, ValueError) as error:
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
