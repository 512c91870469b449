"""A server of the older era over HTTP, by hand: sessions end with the process, answers are JSON.

Argument: the port.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SESSION = f"session-{os.getpid()}"
TOOLS = [
    {"name": "say_word", "inputSchema": {"type": "object"}},
    {"name": "large_text", "inputSchema": {"type": "object"}},
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method = message["method"]
        if method != "initialize" and self.headers.get("mcp-session-id") != SESSION:
            self.answer(404, None)
        elif "id" not in message:
            self.answer(202, None)
        elif method == "initialize":
            info = {"name": "legacy", "version": "1"}
            told = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            self.answer(200, {"result": told}, message["id"])
        elif method == "tools/list":
            self.answer(200, {"result": {"tools": TOOLS}}, message["id"])
        elif method == "tools/call":
            given = message["params"]["arguments"]
            said = given.get("word") or "y" * given["size"]
            content = [{"type": "text", "text": said}]
            self.answer(200, {"result": {"content": content}}, message["id"])
        else:
            self.answer(200, {"error": {"code": -32601, "message": "unknown"}}, message["id"])

    def do_GET(self):
        self.answer(405, None)

    do_DELETE = do_GET  # noqa: N815

    def answer(self, status, body, number=None):
        data = b"" if body is None else json.dumps({"jsonrpc": "2.0", "id": number} | body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("mcp-session-id", SESSION)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
