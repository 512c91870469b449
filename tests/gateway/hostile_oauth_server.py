"""An MCP server with an authorization server, by hand, so that it can misuse a login.

Each path is answered as a test says, and each request is recorded. Two of them are two hosts: one
may lead a client to the other.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

JSON = {"Content-Type": "application/json"}
PROTECTED, METADATA = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
)
TOKENS = {"access_token": "access-1234", "token_type": "Bearer", "refresh_token": "refresh-1234"}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("quick", "slow")]


class Host:
    """One host.

    Attributes:
        requests: method, path, headers and body of each request.
        token: the only access token that the MCP server accepts; None for any.
        slow: released before the tool `slow` answers.
        pages: path to what it answers instead: a status, headers and a body.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.token: str | None = "access-1234"
        self.slow = threading.Event()
        self.pages: dict[str, tuple[int, dict[str, str], object]] = {}
        self.base = ""

    @property
    def address(self) -> str:
        return f"{self.base}/mcp"

    def paths(self) -> list[str]:
        return [path.partition("?")[0] for _, path, _, _ in self.requests]

    def metadata(self, **changed: object) -> dict[str, object]:
        endpoints = {
            f"{name}_endpoint": f"{self.base}/{name}"
            for name in ("authorization", "token", "registration")
        }
        return {"issuer": self.base, **endpoints, **changed}

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes):
        path, _, query = path.partition("?")
        if path in self.pages:
            return self.pages[path]
        if path == "/mcp":
            return self.mcp(headers, json.loads(body)) if method == "POST" else (405, {}, b"")
        if path.startswith(PROTECTED):
            return 200, JSON, {"resource": self.address, "authorization_servers": [self.base]}
        if path.startswith(METADATA):
            return 200, JSON, self.metadata()
        if path == "/registration":
            return 201, JSON, {**json.loads(body), "client_id": "me"}
        if path == "/token":
            return 200, JSON, TOKENS
        if path == "/authorization":
            asked = {name: values[0] for name, values in parse_qs(query).items()}
            back = f"{asked['redirect_uri']}?code=1&state={asked['state']}"
            return 302, {"Location": back}, b""
        return 404, {}, b""

    def mcp(self, headers, message):
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"WWW-Authenticate": "Bearer"}, b""
        if "id" not in message:
            return 202, {}, b""
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        if message.get("params", {}).get("name") == "slow":
            self.slow.wait(60)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] not in results:
            return 200, JSON, {**answer, "error": {"code": -32601, "message": "unknown"}}
        return 200, JSON, {**answer, "result": results[message["method"]]}


@contextmanager
def hostile_host():
    """A host on a free port of the loopback."""
    host = Host()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            host.requests.append((self.command, self.path, headers, body))
            status, more, answer = host.answer(self.command, self.path, headers, body)
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    host.base = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.slow.set()
        server.shutdown()
        server.server_close()
