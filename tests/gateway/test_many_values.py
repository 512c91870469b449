"""A message of very many values or objects is refused or shortened before it is read."""

from __future__ import annotations

import json
import time

import anyio
import mcp.types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.connections.message_objects import MAX_PARTS, bounded_message
from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.untrusted import MAX_MESSAGE_OBJECTS, MAX_MESSAGE_VALUES
from shortlist.untrusted.json_bytes import ValueLimit

from .fleets import call, rough, running, text_of
from .test_http_answers import peak_bytes
from .test_transports import listening, reached

OBJECTS = 10_000_000
EVENTS = {"Content-Type": "text/event-stream"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


def value_count(value: object) -> int:
    if isinstance(value, dict | list):
        children = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(0, len(children) - 1) + sum(map(value_count, children))
    return 0


TEXTS = st.text('a,[{"\\\n é', max_size=6)
VALUES = st.recursive(
    TEXTS | st.integers(0, 9) | st.none(),
    lambda children: st.lists(children) | st.dictionaries(TEXTS, children),
)


@given(VALUES, st.lists(st.integers(1, 7)), st.sampled_from([None, 1]), st.booleans())
def test_values_are_counted_across_chunks(value, sizes, indent, is_ascii):
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    limit, start = ValueLimit(), 0
    for size in [*sizes, len(text)]:
        limit.feed(text[start : start + size])
        start += size
    assert limit.values == value_count(value)


@pytest.mark.parametrize("start", [b'"', b': "\r', b': "\\\n', b'"\\'])
def test_a_quotation_mark_elsewhere_hides_no_values(start):
    for size in (1, 7, 1_000):
        limit, text = ValueLimit(), start + b'\n{"a": "b,"},{}' * 100
        for place in range(0, len(text), size):
            limit.feed(text[place : place + size])
        assert limit.values >= 300


@pytest.mark.anyio
@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["stdio", "json", "events"])
async def test_millions_of_objects_stop_no_other_server(tmp_path, kind):
    with listening("rough_http_server.py") as server:
        one = rough(tmp_path, "one") if kind == "stdio" else reached(server)
        async with running(tmp_path, one, rough(tmp_path, "good")) as fleet:
            tool = "one/big" if kind == "stdio" else "one/answer"
            more = {"headers": EVENTS, "events": "objects"} if kind == "events" else {}
            await call(fleet, "good/echo")
            before, longest = peak_bytes(), 0.0
            ended = anyio.Event()

            async def ask():
                with pytest.raises(UpstreamError), anyio.fail_after(100):
                    await call(fleet, tool, objects=OBJECTS, **more)
                ended.set()

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                while not ended.is_set():
                    start = time.perf_counter()
                    await call(fleet, "good/echo")
                    longest = max(longest, time.perf_counter() - start)
            assert longest < 1.0
            assert peak_bytes() - before < 300_000_000
            few = await call(fleet, tool, objects=MAX_MESSAGE_VALUES // 10, **more)
            assert len(few.structured_content["rows"]) == MAX_MESSAGE_VALUES // 10
            assert text_of(await call(fleet, "good/echo")) == "{}"


LINK = {"type": "resource_link", "uri": "memo://x", "name": "x"}
TEXT = {"type": "text", "text": "a text"}
SOUND = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}


def bounded(**result):
    return bounded_message(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=result))


@pytest.mark.parametrize(
    ("key", "part", "line"),
    [
        ("content", LINK, json.dumps(LINK)),
        ("content", TEXT, "a text"),
        ("contents", {"uri": "memo://x", "blob": "AAAA"}, '{"uri": "memo://x"}'),
        (
            "messages",
            {"role": "user", "content": TEXT},
            json.dumps({"role": "user", "content": TEXT}),
        ),
    ],
)
@pytest.mark.parametrize("is_task", [False, True])
def test_the_first_parts_of_a_result_stay_and_the_others_are_one_text(key, part, line, is_task):
    result = {key: [part] * 20_000}
    parts = bounded(**({"result": result} if is_task else result)).result
    parts = (parts["result"] if is_task else parts)[key]
    assert parts[:-1] == [part] * (MAX_PARTS - 1)
    text = parts[-1].get("content", parts[-1])["text"]
    assert text.split("\n", 1)[0].startswith(f"[{20_000 - MAX_PARTS + 1:,} more parts")
    assert set(text.split("\n")[1:]) == {line}
    model = {"content": types.CallToolResult, "messages": types.GetPromptResult}
    model.get(key, types.ReadResourceResult).model_validate({key: parts})


def test_images_and_sounds_beyond_the_first_parts_are_counted():
    text = bounded(content=[SOUND] * 2_000).result["content"][-1]["text"]
    assert text == "[1,001 more images or sounds are left out]"


def test_other_lists_of_objects_are_refused():
    icons = [{"src": "https://x"}] * MAX_MESSAGE_OBJECTS
    assert "5,000 objects" in bounded(content=[{**LINK, "icons": icons}]).error.message
    assert len(bounded(tools=[{"name": "x"}] * 50_000).result["tools"]) == 10_001
    tools = [{"name": "x", "icons": icons}] * 5
    assert "20,000 objects" in bounded(tools=tools).error.message
    rows = {"structuredContent": {"rows": icons}, "content": [TEXT]}
    assert bounded(**rows).result == rows
    question = types.JSONRPCRequest(
        jsonrpc="2.0", id=1, method="sampling/createMessage", params={"messages": icons}
    )
    assert bounded_message(question).params is None


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["stdio", "json", "events"])
async def test_a_result_of_very_many_links_is_shortened_over_every_transport(tmp_path, kind):
    with listening("rough_http_server.py") as server:
        one = rough(tmp_path, "one") if kind == "stdio" else reached(server)
        async with running(tmp_path, one) as fleet:
            tool = "one/big" if kind == "stdio" else "one/answer"
            more = {"headers": EVENTS, "events": "objects"} if kind == "events" else {}
            result = await call(fleet, tool, links=20_000, **more)
            assert len(result.content) == MAX_PARTS
            assert result.content[-1].text.count("memo://x") == 20_000 - MAX_PARTS + 1
            with pytest.raises(UpstreamError, match="5,000 objects"):
                await call(fleet, tool, links=1, icons=MAX_MESSAGE_OBJECTS, **more)
