"""A message of millions of tiny values is refused before it is read in one block."""

from __future__ import annotations

import json
import time

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.untrusted import MAX_MESSAGE_VALUES
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
