"""Calls the calm server again and again, in a process of its own: attackers do not slow it down.

python calm_caller.py ADDRESS TOKEN

It writes a line for each call: when it began, by the clock that all processes share, and its
milliseconds. It ends with an error if a call fails.
"""

from __future__ import annotations

import sys
from time import monotonic, sleep

import httpx2

HEADERS = {
    "Authorization": f"Bearer {sys.argv[2]}",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
}
CLIENT = {"name": "calm", "version": "1"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
CALL = {"name": "call_tool", "arguments": {"name": "calm/say", "arguments": {"text": "calm"}}}


def main() -> None:
    http = httpx2.Client(headers=HEADERS, timeout=90)
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    session = http.post(sys.argv[1], json=message).headers["mcp-session-id"]
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": CALL}
    while True:
        start = monotonic()
        answer = http.post(sys.argv[1], json=message, headers={"mcp-session-id": session})
        sys.stdout.write(f"{start} {(monotonic() - start) * 1e3}\n")
        sys.stdout.flush()
        if "calm:calm" not in answer.text:
            raise SystemExit(answer.text[:1_000])
        sleep(0.02)


if __name__ == "__main__":
    main()
