"""A server for tests that speaks the protocol over HTTP by hand, so that it can break it.

Argument: the port. The arguments of a call of `answer` say how it is answered: `headers` of the
answer, `size` of its text, `codings` of its body, `events` of an event stream and `status`. Under
`/locked` it wants a login, and its documents about the login are large. Under `/endless` it never
answers the end of a session.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import json
import sys
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON = {"Content-Type": "application/json"}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("answer", "say_word")]


def encoded(body: bytes, coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(body, 1)
    if coding == "deflate":
        return zlib.compress(body, 1)
    if coding == "br":
        return importlib.import_module("brotli").compress(body, quality=1)
    if coding == "zstd":
        return importlib.import_module("backports.zstd").compress(body)
    if coding == "bz2":
        return bz2.compress(body)
    raise ValueError(coding)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, number = message["method"], message.get("id")
        if self.path == "/locked":
            self.answer(401, b"")
        elif number is None:
            self.answer(202, b"")
        elif method == "initialize":
            info = {"name": "rough", "version": "1"}
            capabilities = {"tools": {}}
            self.result(
                number,
                {
                    "protocolVersion": "2025-06-18",
                    "capabilities": capabilities,
                    "serverInfo": info,
                },
                {**JSON, "Mcp-Session-Id": "1"} if self.path == "/endless" else JSON,
            )
        elif method == "tools/list":
            self.result(number, {"tools": TOOLS})
        elif method == "tools/call" and message["params"]["name"] == "answer":
            self.rough_answer(number, **message["params"]["arguments"])
        elif method == "tools/call":
            self.result(number, text("hello"))
        else:
            error = {"error": {"code": -32601, "message": "unknown"}}
            self.answer(200, json.dumps({"jsonrpc": "2.0", "id": number, **error}).encode())

    def do_GET(self):
        if self.path.startswith("/.well-known/"):
            body = json.dumps({"issuer": "y" * 150_000_000}).encode()
            self.answer(200, encoded(body, "gzip"), {**JSON, "Content-Encoding": "gzip"})
        else:
            self.answer(405, b"")

    def do_DELETE(self):
        if self.path == "/endless":
            time.sleep(600)
        self.answer(405, b"")

    def rough_answer(
        self,
        number,
        *,
        headers=None,
        size=1,
        codings=(),
        events=None,
        status=200,
        raw=None,
        objects=0,
        links=0,
        icons=0,
    ):
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": text("y" * size)}).encode()
        if objects:
            rows = ",".join(["{}"] * objects)
            result = f'{{"content": [], "structuredContent": {{"rows": [{rows}]}}}}'
            body = f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}'.encode()
        if links:
            icon = {"src": "https://x"}
            link = {
                "type": "resource_link",
                "uri": "memo://x",
                "name": "x",
                "icons": [icon] * icons,
            }
            result = {"content": [link] * links}
            body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        if raw is not None:
            body = raw.replace("NUMBER", str(number)).encode().replace(b"HALF", b"\xf0\x9f")
        if events == "comments":
            body = b":\n" * (size // 2)
        elif events in ("result", "objects"):
            body = b"data: " + body + b"\n\n"
        for coding in codings:
            body = encoded(body, coding)
        in_http = [coding for coding in codings if coding != "bz2"]
        more = {"Content-Encoding": ", ".join(in_http)} if in_http else {}
        self.answer(status, body, (headers or JSON) | more)

    def result(self, number, value, headers=None):
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": value}).encode()
        self.answer(200, body, headers)

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {**(headers or JSON), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def text(said: str) -> dict:
    return {"content": [{"type": "text", "text": said}]}


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
