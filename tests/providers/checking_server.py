"""Stands for the services of Anthropic and OpenAI, and refuses what their documents refuse.

A test gets a `Conversation` (the fixture `provider`), points a real SDK at its address, and scripts
the model's replies:

    provider.script(Reply(calls=[Call("get_time")]), Reply("It is noon."))
    client = anthropic.Anthropic(base_url=provider.url, api_key="x", max_retries=0)
    ...
    assert provider.refusals == []
    assert provider.prefix_breaks() == []

Import these modules by their absolute names, as the fixture does, so that they are loaded once.
Each request is checked against the SDKs' types (`strict_models`) and the rules across messages
(`anthropic_rules`, `openai_rules`). A request that passes gets the next reply, streamed where it
asks for a stream. Another gets status 400, and the reason is in `refusals`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise, zip_longest
from threading import Thread
from typing import Any

from . import scripted_replies as replies
from .anthropic_rules import check_messages_request
from .definition_rules import Json, Refusal, Rules
from .openai_rules import check_chat_request, check_responses_request
from .scripted_replies import Call, Reply, Turn
from .strict_models import refusal_reason

_API_BY_PATH = {
    "/v1/messages": "messages",
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
}
_RENDERERS = {
    "messages": (replies.message_object, replies.message_events),
    "chat": (replies.completion_object, replies.completion_events),
    "responses": (replies.response_object, replies.response_events),
}
#: What the cache covers, in its order; the last is compared item by item. Anthropic, "Prompt
#: caching": tools, system, messages, and `tool_choice` and `thinking` for the messages. OpenAI,
#: "Prompt caching": tools and instructions before the input.
_CACHED = {
    "messages": ("model", "tools", "system", "tool_choice", "thinking", "messages"),
    "chat": ("model", "tools", "messages"),
    "responses": ("model", "tools", "instructions", "input"),
}


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it arrived. `api` is "messages", "chat" or "responses"."""

    api: str
    raw: bytes
    headers: dict[str, str]
    refusal: str | None

    @property
    def body(self) -> Json:
        body: Json = json.loads(self.raw)
        return body


class Conversation:
    """One conversation: its address, the replies still to come, and what was sent.

    Attributes:
        url: For `anthropic.Anthropic(base_url=...)`.
        openai_url: For `openai.OpenAI(base_url=...)`.
        requests: Every request, refused ones too, in the order of arrival.
        refusals: Why requests were refused.
    """

    def __init__(self, url: str, rules: Rules) -> None:
        self.url = url
        self.openai_url = f"{url}/v1"
        self.rules = rules
        self.requests: list[RecordedRequest] = []
        self._replies: list[Reply | Callable[[Json], Reply]] = []

    @property
    def refusals(self) -> list[str]:
        return [request.refusal for request in self.requests if request.refusal is not None]

    def script(self, *scripted: Reply | str | Callable[[Json], Reply]) -> None:
        """Adds replies: a text, a `Reply`, or a function of the request's body that returns one."""
        self._replies += [Reply(item) if isinstance(item, str) else item for item in scripted]

    def prefix_breaks(self) -> list[str]:
        """Where a request does not begin with the accepted request before it."""
        accepted = [request for request in self.requests if request.refusal is None]
        breaks = [prefix_break(earlier, later) for earlier, later in pairwise(accepted)]
        return [text for text in breaks if text is not None]

    def respond(self, path: str, raw: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer to one request."""
        path, _, query = path.partition("?")
        api = _API_BY_PATH.get(path)
        if api is None:
            return 404, "application/json", _error_body("messages", f"no such path: {path}")
        try:
            turn = self._checked_turn(api, raw, headers, beta="beta=true" in query)
        except Refusal as refusal:
            self.requests.append(RecordedRequest(api, raw, headers, str(refusal)))
            return 400, "application/json", _error_body(api, str(refusal))
        self.requests.append(RecordedRequest(api, raw, headers, None))
        body = json.loads(raw)
        whole, events = _RENDERERS[api]
        if not body.get("stream"):
            return 200, "application/json", json.dumps(whole(turn, body["model"])).encode()
        stream = "".join(_server_sent(event) for event in events(turn, body["model"]))
        end = "data: [DONE]\n\n" if api == "chat" else ""
        return 200, "text/event-stream", (stream + end).encode()

    def _checked_turn(self, api: str, raw: bytes, headers: dict[str, str], *, beta: bool) -> Turn:
        request_type = "beta responses" if beta and api == "responses" else api
        if reason := refusal_reason(request_type, raw):
            raise Refusal(reason)
        body = json.loads(raw)
        namespaces: dict[str, str | None] = {}
        if api == "messages":
            if "anthropic-version" not in headers:
                raise Refusal("anthropic-version: header is required")
            betas = set(filter(None, headers.get("anthropic-beta", "").replace(" ", "").split(",")))
            names = check_messages_request(body, betas, self.rules)
        elif api == "chat":
            names = check_chat_request(body, self.rules)
        else:
            namespaces = check_responses_request(body, self.rules)
            names = set(namespaces)
        if not self._replies:
            raise Refusal("script: no reply is left for this request")
        step = self._replies.pop(0)
        try:
            reply = step(body) if callable(step) else step
        except AssertionError as error:
            raise Refusal(f"script: {error}") from error
        called = {call.name for call in reply.calls if isinstance(call, Call)}
        if called - names and not self.rules.unavailable_calls:
            raise Refusal(f"script: the model has no tool {min(called - names)!r} at this place")
        return Turn(reply, len(self.requests), namespaces)


def prefix_break(earlier: RecordedRequest, later: RecordedRequest) -> str | None:
    """The first difference that makes the provider's cache of `earlier` useless for `later`.

    Values are compared as JSON text with the keys in the order sent. Cache breakpoints are left
    out, as they move. So are Anthropic's deferred tools, until a reference names them.
    """
    if earlier.api != later.api:
        return f"the API is {later.api}, not {earlier.api}"
    old, new = _cached_parts(earlier), _cached_parts(later)
    *fields, last = _CACHED[earlier.api]
    for field in fields:
        if old[field] != new[field]:
            return _first_difference(field, old[field], new[field])
    if old[last] != new[last][: len(old[last])]:
        return _first_difference(last, old[last], new[last])
    return None


def _first_difference(field: str, old: list[str], new: list[str]) -> str:
    for index, text in enumerate(old):
        if index >= len(new):
            return f"{field}[{index}] is missing; it was {text[:120]}"
        if text != new[index]:
            pairs = enumerate(zip_longest(text, new[index]))
            start = max(next(at for at, (a, b) in pairs if a != b) - 40, 0)
            part = slice(start, start + 80)
            return f"{field}[{index}] was ...{text[part]} and is ...{new[index][part]}"
    return f"{field}[{len(old)}] is new: {new[len(old)][:120]}"


def _cached_parts(request: RecordedRequest) -> dict[str, list[str]]:
    body = request.body
    parts = {}
    for field in _CACHED[request.api]:
        value = body.get(field, [])
        items = value if isinstance(value, list) else [value]
        parts[field] = [_canonical(item) for item in items]
    if request.api == "messages":
        tools = body.get("tools", [])
        deferred = {tool["name"]: _canonical(tool) for tool in tools if tool.get("defer_loading")}
        parts["tools"] = [_canonical(tool) for tool in tools if not tool.get("defer_loading")]
        for index, names in enumerate(_referenced_names(body["messages"])):
            # A deferred definition is rendered where it is referenced.
            parts["messages"][index] += "".join(deferred.get(name, "") for name in names)
    return parts


def _referenced_names(messages: list[Json]) -> list[list[str]]:
    """The names that each message refers to, in a result or in a tool change."""
    names: list[list[str]] = []
    for message in messages:
        blocks = message.get("content") if isinstance(message.get("content"), list) else []
        parts = [block["tool"] for block in blocks if "tool" in block]
        for block in blocks:
            if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                parts += block["content"]
        references = [part for part in parts if part["type"] == "tool_reference"]
        names.append([part.get("name") or part["tool_name"] for part in references])
    return names


def _canonical(value: Any) -> str:
    return json.dumps(_without_breakpoints(value), ensure_ascii=False, separators=(",", ":"))


def _without_breakpoints(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_breakpoints(item) for item in value]
    if not isinstance(value, dict):
        return value
    markers = ("cache_control", "prompt_cache_breakpoint")
    return {key: _without_breakpoints(item) for key, item in value.items() if key not in markers}


def _server_sent(event: Json) -> str:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def _error_body(api: str, message: str) -> bytes:
    error = {"type": "invalid_request_error", "message": message}
    if api == "messages":
        return json.dumps({"type": "error", "error": error}).encode()
    return json.dumps({"error": {**error, "param": None, "code": None}}).encode()


class CheckingServer:
    """A server on loopback with any number of conversations. Close it, or use it in `with`."""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        conversations = self._conversations

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                _, name, path = self.path.split("/", 2)
                headers = {key.lower(): value for key, value in self.headers.items()}
                status, kind, body = conversations[name].respond(f"/{path}", raw, headers)
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Keep the tests quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def conversation(self, rules: Rules | None = None) -> Conversation:
        """A new conversation with an address of its own."""
        name = f"c{len(self._conversations)}"
        url = f"http://127.0.0.1:{self._server.server_port}/{name}"
        self._conversations[name] = Conversation(url, rules or Rules())
        return self._conversations[name]

    def __enter__(self) -> CheckingServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
