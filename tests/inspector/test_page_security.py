"""Who gets answers from the page, what it may load, and that hostile texts stay texts."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from shortlist import Tool

from .injections import HIDDEN_CHARACTERS, INJECTIONS
from .pages import Page, inspecting, save_index

READING = {
    "start": {},
    "search": {"query": "add"},
    "explain": {"query": "add", "tool": "math/add"},
    "ids": {"text": "a"},
    "servers": {},
    "tools": {},
    "tool": {"id": "math/add"},
    "trust": {},
    "review": {"id": "math/add"},
    "events": {},
    "conversations": {},
    "overview": {},
}
WRITING = {
    "approve": {"tool": "math/add", "fingerprint": "0", "pinned": ""},
    "examples": {"tool": "math/add", "query": "sum up"},
    "server": {"name": "math", "action": "start"},
}


def _event(number: int, text: str) -> dict[str, object]:
    return {
        "kind": "search",
        "turn_id": f"{text}/1",
        "session": text,
        "turn": number,
        "at": f"2026-11-22T20:{number:02d}:00.000+00:00",
        "client": text,
        "query": f"{number:032x}",
        "server": text,
        "tier": text,
        "outcome": "nothing",
        "found": [],
        "reason": text,
        "tokens": 1,
        "ms": 1.0,
        "content": {"query": text},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index, pins, example queries and events, all full of injections."""
    folder = tmp_path_factory.mktemp("hostile")
    tools = [Tool("add", "math", "Adds two numbers.")]
    for number, text in enumerate(INJECTIONS):
        schema = {"type": "object", "properties": {text: {"type": "string", "description": text}}}
        tools.append(Tool(f"t{number}", f"s{number} {text}", f"Tool {number}. {text}", schema))
        tools.append(Tool(f"n{number} {text}", "names", f"Named {number}.", title=text))
    tools.append(Tool("long", "math", "words " * 200_000))
    save_index(folder / "index", tools)
    lines = [json.dumps(_event(n, text)) for n, text in enumerate(INJECTIONS)]
    lines.append(json.dumps(_event(51, "x" * 1_000_000)))
    lines += ["no JSON", '{"kind": "search", "turn_id": "a/1"}']
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    options = ("--index", "index", "--pins", "pins.json", "--examples", "examples.jsonl")
    paths = [str(folder / word) if not word.startswith("--") else word for word in options]
    with inspecting(folder, *paths, "--events", str(folder / "events.jsonl")) as page:
        yield page


def test_the_page_loads_nothing_from_elsewhere(page: Page) -> None:
    for name in ("", "page.css", "page.js", "icon.svg"):
        response = page.get(name, {"authorization": ""})
        policy = response.headers["content-security-policy"]
        assert response.status_code == 200
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        elsewhere = response.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in elsewhere
        assert "https://" not in elsewhere
    html = page.get("").text
    assert "style=" not in html
    assert html.count("<script") == html.count('<script src="page.js" defer></script>') == 1
    script = page.get("page.js").text
    sinks = ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(")
    assert [sink for sink in sinks if sink in script] == []


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_strangers_get_no_answer(page: Page, name: str) -> None:
    query = READING.get(name, {})

    def status(headers: dict[str, str]) -> int:
        if name in READING:
            return page.get(f"api/{name}", headers, **query).status_code
        return page.post(name, WRITING[name], headers).status_code

    port = page.origin.rpartition(":")[2]
    assert status({"authorization": ""}) == 401
    assert status({"authorization": "Bearer wrong"}) == 401
    assert status({"authorization": f"Basic {page.token}"}) == 401
    assert status({"host": f"evil.example:{port}"}) in (403, 421)
    assert status({"host": f"127.0.0.1.evil.example:{port}"}) in (403, 421)
    assert status({"origin": "https://evil.example"}) == 403
    assert status({"origin": "null"}) == 403
    assert status({"origin": f"http://localhost:{int(port) + 1}"}) == 403
    assert status({"sec-fetch-site": "cross-site"}) == 403


@pytest.mark.parametrize(
    ("header", "values", "status"),
    [
        (
            "origin",
            ["http://[", "http://[::1", "http://{host}.evil.example", "//{host}", "\xff"],
            403,
        ),
        ("host", ["[", "evil.example:localhost", "{host}.evil.example", "localhost:", "a b"], 421),
    ],
)
def test_hosts_and_origins_are_parsed_and_then_compared(
    page: Page, header: str, values: list[str], status: int
) -> None:
    for value in values:
        text = value.replace("{host}", page.origin.removeprefix("http://"))
        response = page.get("api/start", {header: text.encode("latin-1")})
        assert (response.status_code, len(response.content) < 200) == (status, True), value


def test_half_sent_requests_leave_the_operator_a_place_and_the_log_short(folder: Path) -> None:
    """A process with few descriptors, and more open connections than it may have."""
    paths = ("--index", str(folder / "index"))
    with inspecting(folder, *paths, max_descriptors=160) as page, ExitStack() as stack:
        port = int(page.origin.rpartition(":")[2])
        for _ in range(200):
            half_open = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            half_open.sendall(b"GET /inspect/ HTTP/1.1\r\nHost: ")
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port)) as bad:
                bad.sendall(b"\x00\r\n\r\n")
        assert page.answer("start")["tiers"] == ["lexical"]
        assert page.get("api/start", {"origin": "http://["}).status_code == 403
        assert len(page.stop()) < 1_000


def test_another_name_of_this_machine_gets_no_page(page: Page) -> None:
    assert page.get("", {"host": "evil.example"}).status_code == 421
    assert page.get("", {"host": "localhost"}).status_code == 200


@pytest.mark.parametrize("name", WRITING)
def test_only_a_post_of_json_from_the_page_itself_writes(page: Page, name: str) -> None:
    values = WRITING[name]
    assert page.get(f"api/{name}", **values).status_code == 405
    assert page.post(name, values, {"origin": None}).status_code == 403
    assert page.post(name, values, {"content-type": "text/plain"}).status_code == 415
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert page.post(name, values, form).status_code == 415
    assert page.post(name, {"tool": "math/add"}).status_code == 400
    assert page.post(name, ["math/add"]).status_code == 400
    assert page.post(name, {**values, "more": "x" * 70_000}).status_code == 400
    assert page.post(name, {**values, "tool": "math/none"}).status_code in (400, 404)


def test_nothing_is_written_by_reading(page: Page, folder: Path) -> None:
    def hashes() -> dict[str, str]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = hashes()
    for name, query in READING.items():
        page.answer(name, **query)
        sent = {"authorization": f"Bearer {page.token}"}
        address = f"{page.base}api/{name}"
        assert httpx2.head(address, params=query, headers=sent).status_code == 200
        for method in ("DELETE", "PUT", "OPTIONS"):
            assert httpx2.request(method, address, headers=sent).status_code in (403, 405)
    for name in WRITING:
        page.get(f"api/{name}", **WRITING[name])
    assert hashes() == before


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, child in value.items():
            yield key
            yield from _strings(child)
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)


def test_hostile_texts_arrive_as_json_with_nothing_hidden(page: Page) -> None:
    ids = [tool["id"] for start in (0, 100) for tool in page.answer("tools", start=start)["tools"]]
    assert len(ids) == 102
    reads: list[tuple[str, dict[str, object]]] = list(READING.items())
    # Each definition in one of its two forms, and each query.
    reads += [(("tool", "review")[place % 2], {"id": one}) for place, one in enumerate(ids)]
    reads += [("search", {"query": text.replace("\ud800", "\ufffd")}) for text in INJECTIONS]
    sent = {"authorization": f"Bearer {page.token}"}
    with httpx2.Client(headers=sent, timeout=60) as client:
        for name, query in reads:
            response = client.get(f"{page.base}api/{name}", params=query)
            assert response.status_code == 200, (name, query, response.text)
            assert response.headers["content-type"] == "application/json"
            assert response.headers["x-content-type-options"] == "nosniff"
            for text in _strings(response.json()):
                assert not HIDDEN_CHARACTERS & set(text), (name, query)
                assert len(text) < 20_100 * 6


def test_injections_are_shown_and_not_removed(page: Page) -> None:
    lines = page.answer("events")["lines"]
    titles = [line["title"] for line in lines]
    for text in INJECTIONS[:40]:
        assert f"searched “{text}”" in titles
    assert r"searched “pay \u202e001 euros\u202c now”" in titles
    [long_title] = [title for title in titles if "xxxx" in title]
    assert long_title.endswith("[…cut: 1,000,000 characters in all]”")
    assert page.answer("events")["damaged"] == 2


def test_an_unknown_profile_tool_or_number_is_an_error_with_words(page: Page) -> None:
    assert "no profile 'x'" in page.get("api/search", query="a", profile="x").json()["error"]
    assert page.get("api/tool", id="math/ad").status_code == 404
    assert "start" in page.get("api/tools", start="-1").json()["error"]
    assert page.get("api/none").status_code == 404
