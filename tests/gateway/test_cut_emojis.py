r"""Texts that were cut inside an emoji: `\ud83d` alone, or UTF-8 that ends too early.

The message counts, with U+FFFD in place of the rest of the emoji.
"""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.tests.gateway.fleets import HERE, BareCall, call, rough, running, text_of
from shortlist.tests.gateway.test_serve import _HELLO, _ask, serving
from shortlist.tests.gateway.test_transports import listening, reached
from shortlist.untrusted.json_bytes import JsonRepair, repaired_json

PIECES = [rb"\ud83d", rb"\ude00", rb"\uD83D", rb"\\", rb"\"", rb"\u00e9", b"ud83d", b"d8", b"a"]
PIECES += ["😀".encode(), b"\xf0\x9f", b"\xed\xa0\xbd", b"\xff"]
CUT = "cut �"
#: The text as a client sends it: as an escape, and as bytes.
CUT_TEXTS = (rb"cut \ud83d", b"cut \xf0\x9f")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@given(st.lists(st.sampled_from(PIECES), max_size=10), st.lists(st.integers(1, 8), min_size=200))
def test_repaired_json_says_what_a_lenient_parser_reads(pieces, sizes):
    text = b'{"k": "' + b"".join(pieces) + b'"}\n'
    repair, repaired, start = JsonRepair(), b"", 0
    for size in sizes:
        repaired += repair.feed(text[start : start + size])
        start += size
    # Its line break has come, so nothing waits for more.
    assert repair.end() == b""
    lenient = json.loads(text.decode("utf-8", "replace"))["k"]
    utf16 = lenient.encode("utf-16", "surrogatepass")
    assert json.loads(repaired.decode())["k"] == utf16.decode("utf-16", "replace")
    assert repaired_json(text) == repaired


@pytest.mark.anyio
async def test_a_server_that_cuts_emojis_is_served(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "cut")) as fleet:
        assert {"one/smile", f"one/{CUT}"} <= {tool.id for tool in fleet.engine.catalog}
        tool = fleet.engine.catalog.get("one/smile")
        assert tool.description == CUT
        assert tool.input_schema["properties"] == {CUT: {"description": CUT}}
        bare = BareCall("one", "smile", {})
        result = await fleet.send(bare)
        assert [message.params.data for message in bare.sent] == [CUT]
        assert text_of(result) == CUT
        assert result.structured_content == {CUT: CUT}
        assert text_of(await call(fleet, "one/smile_in_bytes")) == CUT
        with pytest.raises(UpstreamError, match=CUT):
            await call(fleet, "one/smile_in_error")
        assert fleet.problems() == {"one": []}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("frame", "cut"),
    [
        ("JSON", r"cut \ud83d"),
        ("data: JSON\n\n", "cut HALF"),
        (": \ndata: JSON\r\n\r\n", r"cut \ud83d"),
    ],
)
async def test_a_server_over_http_that_cuts_emojis_is_served(tmp_path, cut, frame):
    content = f'{{"content": [{{"type": "text", "text": "{cut}"}}]}}'
    answer = f'{{"jsonrpc": "2.0", "id": NUMBER, "result": {content}}}'
    media_type = "application/json" if frame == "JSON" else "text/event-stream"
    arguments = {"raw": frame.replace("JSON", answer), "headers": {"Content-Type": media_type}}
    with listening("rough_http_server.py") as server:
        async with running(tmp_path, reached(server)) as fleet:
            with anyio.fail_after(20):
                assert text_of(await call(fleet, "one/answer", **arguments)) == CUT


def test_a_client_that_cuts_emojis_is_answered(tmp_path):
    (tmp_path / "one").mkdir()
    args = [str(HERE / "rough_server.py"), "plain", str(tmp_path / "one")]
    entry = {"command": sys.executable, "args": args}
    pipe = subprocess.PIPE
    command, environment = serving(tmp_path, own={"engine": {"tiers": ["lexical"]}}, one=entry)
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as gateway:
        _ask(gateway, 1, "initialize", **_HELLO)
        results = []
        for cut in CUT_TEXTS:
            for _ in range(600):
                gateway.stdin.write(_call(b"one/echo", cut) + b"\n")
                gateway.stdin.flush()
                result = json.loads(gateway.stdout.readline())["result"]
                if not result.get("isError"):
                    break
            results.append(json.loads(result["content"][0]["text"]))
        gateway.stdin.close()
        gateway.wait(30)
    assert results == [{"a": CUT}] * 2


def test_a_client_over_http_that_cuts_emojis_is_answered(tmp_path):
    own = {"engine": {"tiers": ["lexical"]}}
    command, environment = serving(tmp_path, "--http", "127.0.0.1:0", own=own)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stderr=pipe) as gateway:
        try:
            url = gateway.stderr.readline().decode().split()[-1]
            accepted = {
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
            }
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
            with httpx2.Client(headers=accepted, timeout=60) as client:
                greeting = client.post(url, json=hello)
                client.headers["mcp-session-id"] = greeting.headers["mcp-session-id"]
                for cut in CUT_TEXTS:
                    answer = client.post(url, content=_call(b"one/\x65cho", cut))
                    assert answer.status_code == 200
                    assert "one/echo" in answer.text
        finally:
            gateway.kill()


def _call(name: bytes, text: bytes) -> bytes:
    arguments = b'{"name": "%s", "arguments": {"a": "%s"}}' % (name, text)
    params = b'{"name": "call_tool", "arguments": %s}' % arguments
    return b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": %s}' % params
