"""A server for tests that appends the name of each called tool to a file.

Usage: `recording_server.py FOLDER`.

FOLDER/tools.json has the definitions of the tools. It is read for every `tools/list`, and the
server reports when it changes. FOLDER/calls gets a line for each call. The tool `ask_person` asks
the client a question and answers with the client's answer. The tool `end_process` ends the server,
whose definitions are those in FOLDER/later.json from then on.

It speaks the protocol without the SDK, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
TOOLS = FOLDER / "tools.json"
WRITING = threading.Lock()
#: Ids of questions to the ids of the calls that wait for their answers.
questions: dict[str, object] = {}


def send(**message: object) -> None:
    with WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text_result(text: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


def report_changes() -> None:
    definitions = TOOLS.read_bytes()
    while True:
        time.sleep(0.02)
        if (present := TOOLS.read_bytes()) != definitions:
            definitions = present
            send(method="notifications/tools/list_changed")


def answer(message: dict) -> None:
    method, request_id, params = message["method"], message["id"], message.get("params") or {}
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "recording", "version": "1"},
        }
        send(id=request_id, result=result)
    elif method == "tools/list":
        send(id=request_id, result={"tools": json.loads(TOOLS.read_text())})
    elif method == "tools/call":
        with (FOLDER / "calls").open("a") as calls:
            calls.write(params["name"] + "\n")
        if params["name"] == "end_process":
            (FOLDER / "later.json").replace(TOOLS)
            os._exit(1)
        if params["name"] == "ask_person":
            question_id = f"question-{request_id}"
            questions[question_id] = request_id
            schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
            question = {"message": "Who are you?", "requestedSchema": schema}
            send(id=question_id, method="elicitation/create", params=question)
        else:
            send(id=request_id, result=text_result(f"{params['name']} ran"))
    else:
        send(id=request_id, error={"code": -32601, "message": "no such method"})


def main() -> None:
    threading.Thread(target=report_changes, daemon=True).start()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            answer(message)
        elif message.get("id") in questions:
            call_id = questions.pop(message["id"])
            send(id=call_id, result=text_result(json.dumps(message.get("result"))))


if __name__ == "__main__":
    main()
