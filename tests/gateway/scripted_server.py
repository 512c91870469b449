"""A server for tests that answers with texts from a file, so that a test can send any text.

Argument: a JSON file. Its keys:

- `initialize`: fields of the result, or `{"error": ...}`;
- `tools`: the definitions; `resources`, `templates`, `prompts`: the other lists;
- `answers`: name of a tool, address of a resource or name of a prompt to the answer: `result` or
  `error`, and before it `notify`, a list of messages, or `ask`, a question whose answer is the text
  of the result. `{"repeat": TEXT, "times": N}` anywhere in an answer is the repeated text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SCRIPT = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "templates"),
    "prompts/list": ("prompts", "prompts"),
}


def expanded(value):
    if isinstance(value, dict) and set(value) == {"repeat", "times"}:
        return value["repeat"] * value["times"]
    if isinstance(value, dict):
        return {key: expanded(child) for key, child in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(question: dict) -> dict:
    """The client's answer as the text of a result."""
    send({"id": "question", **question})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "question":
            answer = message.get("result") or message["error"]
            return {"content": [{"type": "text", "text": json.dumps(answer)}]}
    sys.exit(0)


def initialized() -> dict:
    return {
        "result": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
            **SCRIPT.get("initialize", {}),
        }
    }


def answer(message: dict) -> dict:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        given = SCRIPT.get("initialize", {})
        return {"error": given["error"]} if "error" in given else initialized()
    if method in LISTS:
        name, key = LISTS[method]
        return {"result": {name: expanded(SCRIPT.get(key, []))}}
    if method in ("ping", "logging/setLevel"):
        return {"result": {}}
    given = expanded(SCRIPT.get("answers", {}).get(params.get("name") or params.get("uri"), {}))
    token = (params.get("_meta") or {}).get("progressToken")
    for notification in given.get("notify", ()):
        if notification["method"] == "notifications/progress":
            notification["params"]["progressToken"] = token
        send(notification)
    if "ask" in given:
        return {"result": ask(given["ask"])}
    known = {key: given[key] for key in ("result", "error") if key in given}
    return known or {"error": {"code": -32601, "message": "no such method"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], **answer(message)})


if __name__ == "__main__":
    main()
