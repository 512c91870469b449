"""A server for tests that speaks the protocol by hand, so that it can break it.

Arguments: the mode, and a folder in which the server notes what happened to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

MODE, NOTES = sys.argv[1], Path(sys.argv[2])
LOCK = threading.Lock()
OBJECT = {"type": "object"}
EXTRA: list[str] = []
CANCELLED: set[int] = set()
#: A text that was cut inside an emoji.
CUT = "cut \ud83d"


def _line(message: dict) -> str:
    return json.dumps({"jsonrpc": "2.0", **message}) + "\n"


#: What a server can write without end.
FLOODS = {
    "text": lambda: "noise\n",
    "empty": lambda: "\n",
    "json": lambda: '{"noise": 1}\n',
    "no end": lambda: "noise" * 10,
    "logs": lambda: _line(
        {"method": "notifications/message", "params": {"level": "error", "data": "noise"}}
    ),
    "answers": lambda: _line({"id": 4_711, "result": {}}),
    "requests": lambda: _line({"id": "again", "method": "ping"}),
    "questions": lambda: _line({"id": "again", "method": "roots/list"}),
}


HEAVY = "word " * 5_000_000 if MODE == "heavy" else ""


def offered(method: str, cursor: str | None) -> dict:
    """Resources, templates and prompts of the mode `heavy`."""
    at = int(cursor or 0)
    if method == "prompts/list":
        plain = {"name": "plain", "description": "word " * 10_000}
        plain["arguments"] = [{"name": "a", "description": "word " * 10_000}]
        many = {"name": "many", "arguments": [{"name": f"a{number}"} for number in range(500)]}
        long = {"name": "n" * 300}
        return {"prompts": [plain, many, long, {"name": "next", "description": HEAVY}]}
    address = "uri" if method == "resources/list" else "uriTemplate"
    key = "resources" if method == "resources/list" else "resourceTemplates"
    plain = {address: "memo:plain", "name": "n" * 300, "title": "t" * 300}
    plain |= {"description": "word " * 10_000, "_meta": {"long": "m" * 30_000}}
    plain |= {"icons": [{"src": "data:" + "i" * 30_000}]}
    entries = [plain, {address: "memo:" + "u" * 5_000, "name": "long"}] if at == 0 else []
    heavy = {address: f"memo:{at}", "name": "heavy", "description": HEAVY}
    return {key: [*entries, heavy], "nextCursor": str(at + 1)}


def note(name: str, text: str = "x") -> None:
    with (NOTES / name).open("a") as file:
        file.write(text)


def send(message: dict) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(said: str, **more) -> dict:
    return {"content": [{"type": "text", "text": said}], **more}


def tool(name, **more) -> dict:
    return {"name": name, "description": f"Do {name}", "inputSchema": OBJECT, **more}


def tools() -> list:
    reads = {"annotations": {"readOnlyHint": True}}
    named = [
        "echo",
        "sleep",
        "die",
        "big",
        "shape",
        "no_result",
        "child",
        "change",
        "noise",
        "flood",
    ]
    return [
        *map(tool, named),
        tool("read_and_die", **reads),
        tool("promises", outputSchema={"type": "object", "required": ["x"]}),
        *map(tool, EXTRA),
    ]


def listed(cursor: str | None) -> dict:
    note("lists")
    if MODE == "endless":
        return {"tools": tools() if cursor is None else [], "nextCursor": f"{int(cursor or 0) + 1}"}
    if MODE == "circle":
        return {"tools": tools() if cursor is None else [], "nextCursor": "same"}
    if MODE == "pages":
        at = int(cursor or 0)
        return {"tools": tools()[at : at + 5]} | ({"nextCursor": str(at + 5)} if at < 10 else {})
    if MODE == "many":
        return {"tools": [tool(f"tool_{number}") for number in range(10_001)]}
    if MODE == "names":
        odd = ["a/b", "a.b", "a b", "\U0001f600 smile", "..", "x" * 300, "", "a\nb"]
        return {"tools": [*tools(), *map(tool, odd), tool("echo", description="Another echo")]}
    if MODE == "schemas":
        bad = ["x", [], None, 5, {"type": "array"}, {"type": "object", "properties": {"a": "x"}}]
        wrong = [tool(f"bad_{at}", inputSchema=one) for at, one in enumerate(bad)]
        wrong += ["no object", {"inputSchema": OBJECT}, tool("hints", annotations="yes")]
        return {"tools": [*wrong, *tools(), tool("untyped", inputSchema={})]}
    if MODE == "heavy":
        # ToolPages of 25 MB, each with one tool that is worth its place and a long text.
        at = int(cursor or 0)
        heavy = tool(f"heavy_{at}", description=HEAVY)
        return {"tools": [*(tools() if at == 0 else []), heavy], "nextCursor": str(at + 1)}
    if MODE == "floods":
        return {"tools": [*tools(), tool("flood_stdout")]}
    if MODE == "cut":
        schema = {"type": "object", "properties": {CUT: {"description": CUT}}}
        return {
            "tools": [
                *tools(),
                tool("smile", description=CUT, inputSchema=schema),
                *map(tool, [CUT, "smile_in_bytes", "smile_in_error"]),
            ]
        }
    if MODE == "megabytes":
        return {"tools": [*tools(), tool("long", description="word " * 300_000)]}
    return {"tools": tools()}


def call(number: int, name: str, arguments: dict, token: object) -> dict | None:
    note("called_" + name.replace("/", "_")[:50])
    if name == "sleep":
        for _ in range(arguments["steps"]):
            time.sleep(arguments["seconds"])
            if number in CANCELLED:
                return None
            if token is not None and arguments.get("progress"):
                told = {"progressToken": token, "progress": 1, "message": "on it"}
                send({"method": "notifications/progress", "params": told})
        return text("slept")
    if name in ("die", "read_and_die"):
        if len((NOTES / f"called_{name}").read_text()) <= arguments.get("times", 1):
            os._exit(3)
        return text("alive")
    if name == "big" and "objects" in arguments:
        with LOCK:
            rows = ",".join(["{}"] * arguments["objects"])
            result = f'{{"content": [], "structuredContent": {{"rows": [{rows}]}}}}'
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}\n')
        return None
    if name == "big" and "links" in arguments:
        icons = [{"src": "https://x"}] * arguments.get("icons", 0)
        link = {"type": "resource_link", "uri": "memo://x", "name": "x", "icons": icons}
        return {"content": [link] * arguments["links"]}
    if name == "big":
        return text("y" * arguments["bytes"])
    if name == "promises":
        return text("no", structuredContent={"y": 1})
    if name == "no_result":
        return {"content": 5}
    if name == "smile":
        send({"method": "notifications/message", "params": {"level": "error", "data": CUT}})
        return text(CUT, structuredContent={CUT: CUT})
    if name == "smile_in_bytes":
        answered = json.dumps({"jsonrpc": "2.0", "id": number, "result": text("BYTES")}).encode()
        with LOCK:
            sys.stdout.buffer.write(answered.replace(b"BYTES", b"cut \xf0\x9f") + b"\n")
            sys.stdout.buffer.flush()
        return None
    if name == "child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return text(str(child.pid))
    if name == "change":
        EXTRA.append(f"extra_{len(EXTRA)}")
        for _ in range(arguments.get("times", 1)):
            send({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "noise":
        with LOCK:
            sys.stdout.write("this is no message\n")
        return text("made noise")
    if name == "flood_stdout":
        block = FLOODS[arguments["kind"]]() * 1_000
        with LOCK:
            while True:
                sys.stdout.write(block)
    if name == "flood":
        block = ("z" * 99 + "\n") * 1_000
        for _ in range(arguments["blocks"]):
            sys.stderr.write(block)
        sys.stderr.flush()
        return text("flooded")
    return text(json.dumps(arguments))


def answer(message: dict) -> None:
    method, number, params = message["method"], message["id"], message.get("params") or {}
    if method == "initialize":
        if MODE == "hangs":
            return
        info = {"name": "other", "version": "1"}
        told = {"tools": {"listChanged": True}}
        if MODE == "heavy":
            told |= {"resources": {}, "prompts": {}}
        result = {"protocolVersion": "2025-06-18", "capabilities": told, "serverInfo": info}
        if MODE == "heavy":
            result |= {"instructions": HEAVY}
    elif method == "tools/list":
        result = listed(params.get("cursor"))
    elif MODE == "heavy" and method in (
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ):
        note("lists")
        result = offered(method, params.get("cursor"))
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        if params["name"] == "smile_in_error":
            send({"id": number, "error": {"code": -32000, "message": CUT}})
            return
        result = call(number, params["name"], params.get("arguments") or {}, token)
        if result is None:
            return
    else:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
        return
    send({"id": number, "result": result})


def main() -> None:
    note("starts")
    (NOTES / "pid").write_text(str(os.getpid()))
    if MODE == "crashes":
        sys.exit("this server cannot start")
    if MODE == "noisy":
        sys.stdout.write("Listening on port 3000 ...\n\n{not json\n\n")
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            CANCELLED.add(message["params"]["requestId"])
            note("cancelled")
        elif "id" in message and "method" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
    while MODE == "stays":
        time.sleep(1)


if __name__ == "__main__":
    main()
