"""A server that misuses event streams, over streamable HTTP and over SSE. Argument: the port.

The argument `kind` of the tool `stream` says how. `GET /count` says how many requests there were.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

JSON, EVENTS = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("stream", "quick")]
#: Bytes of an event stream by its kind. The stream ends after them without an answer.
STREAMS = {
    "reconnect": b"retry: 0\nid: 1\ndata:\n\n",
    "no wait": b"retry: 0\nid: 1\nevent: message\ndata:\n\n" * 100,
    "long id": b"retry: 0\nid: " + b"7" * 3_000_000 + b"\ndata:\n\n",
    "late": b"retry: " + b"9" * 400 + b"\nid: 1\ndata:\n\n",
    "names": b"".join(b"event: \x1b[2J%d\ndata: x\n\n" % number for number in range(20_000)),
    "long name": b"event: " + b"\x1b[2J" * 500_000 + b"\ndata: x\n\n",
    "no JSON": b"data: \x1b[2J{\n\n",
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "reconnect"
    requests = 0

    def do_POST(self):
        Handler.requests += 1
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number, method = message.get("id"), message["method"]
        if number is None:
            self.answer(202, {}, b"")
        elif method == "initialize":
            info = {"name": "hostile", "version": "1"}
            version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            self.result(number, {**version, "serverInfo": info})
        elif method == "tools/list":
            self.result(number, {"tools": TOOLS})
        elif method != "tools/call":
            error = {"error": {"code": -32601, "message": "unknown"}}
            self.answer(200, JSON, {"jsonrpc": "2.0", "id": number, **error})
        elif message["params"]["name"] == "stream":
            Handler.kind = message["params"]["arguments"]["kind"]
            self.answer(200, EVENTS, STREAMS[Handler.kind])
        else:
            self.result(number, {"content": [{"type": "text", "text": "done"}]})

    def do_GET(self):
        if self.path == "/count":
            self.answer(200, JSON, Handler.requests)
            return
        Handler.requests += 1
        self.answer(200, EVENTS, STREAMS[Handler.kind])

    def do_DELETE(self):
        self.answer(405, {}, b"")

    def result(self, number, value):
        self.answer(200, JSON, {"jsonrpc": "2.0", "id": number, "result": value})

    def answer(self, status, headers, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} -"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(data)}", "", ""]
        # In one write: between two, the kernel waits 40 ms for an acknowledgement.
        self.wfile.write("\r\n".join(lines).encode() + data)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
