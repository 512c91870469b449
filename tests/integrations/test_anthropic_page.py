"""docs/loop-anthropic.md, run with the provider's own library against a server on this machine."""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import shortlist
from shortlist.demo import load_catalog

_PAGE = Path(shortlist.__file__).parent / "docs" / "loop-anthropic.md"


@pytest.fixture
def provider(monkeypatch):
    """A server that answers `/v1/messages` from a script and keeps what it was sent."""
    script: list[list[dict[str, Any]]] = []
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            content = script.pop(0)
            reply = {
                "id": f"msg_{len(sent)}",
                "type": "message",
                "role": "assistant",
                "model": sent[-1]["model"],
                "content": content,
                "stop_reason": "tool_use" if content[-1]["type"] == "tool_use" else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the tests quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    yield script, sent
    server.shutdown()
    server.server_close()
    thread.join()


def uses(number: int, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = {"tool": tool, "arguments": arguments}
    return {"type": "tool_use", "id": f"call_{number}", "name": "call_tool", "input": wanted}


def prefix(request: dict[str, Any]) -> str:
    """What the provider's cache covers before the messages."""
    tools = [tool for tool in request["tools"] if not tool.get("defer_loading")]
    return json.dumps([tools, request["system"]])


@pytest.mark.parametrize("form", ["anthropic_call_tool", "anthropic_search", "anthropic"])
def test_the_loop_runs_with_the_providers_library(provider, form):
    script, sent = provider
    feed = {"url": "https://example.org/feed"}
    script += [
        [uses(1, "web/read_feed", {}), uses(2, "slack/post_message", {})],
        [uses(3, "web/read_feed", feed)],
        [{"type": "text", "text": "Nothing new."}],
    ]
    ran: list[Any] = []

    def run(tool_id: str, arguments: dict[str, Any]) -> str:
        ran.append((tool_id, arguments))
        return "two entries"

    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = code.replace('"anthropic_call_tool"', f'"{form}"')
    names: dict[str, Any] = {"tools": load_catalog(), "run": run}
    exec(compile(code, "loop-anthropic.md", "exec"), names)
    assert names["answer"]("what is new in the feed of our status page?") == "Nothing new."
    assert ran == [("web/read_feed", feed)]
    # Every call is answered in the message right behind it.
    messages = sent[-1]["messages"]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            asked = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            told = [block["tool_use_id"] for block in messages[at + 1]["content"]]
            assert asked == told
    if form != "anthropic":
        assert len({prefix(one) for one in sent}) == 1
    names["client"].close()
