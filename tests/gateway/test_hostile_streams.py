"""Event streams that end without an answer, reconnect without end, or fill the log."""

from __future__ import annotations

import json
import sys
import urllib.request

import anyio
import pytest

from shortlist.gateway.upstream.server_connection import UpstreamError

from .attached import Machine
from .fleets import call, rough, running, text_of, until
from .test_transports import listening, reached

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def requests_of(server) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/count", timeout=30) as answer:
        return json.load(answer)


async def test_streams_that_are_asked_for_again_at_once_end_as_a_flood(tmp_path):
    with listening("hostile_sse_server.py") as server:
        async with running(tmp_path, reached(server), rough(tmp_path, "good")) as fleet:
            with anyio.fail_after(120), pytest.raises(UpstreamError, match="ended during the call"):
                await call(fleet, "one/stream", kind="reconnect")
            await until(lambda: fleet.upstreams["one"].problem)
            assert "it was stopped, because it sent more than" in fleet.problems()["one"][0]
            assert text_of(await call(fleet, "good/echo")) == "{}"
            count = await anyio.to_thread.run_sync(requests_of, server)
            await anyio.sleep(0.5)
            assert await anyio.to_thread.run_sync(requests_of, server) == count < 1_000


@pytest.mark.parametrize("kind", ["long id", "late", "long name", "no JSON"])
async def test_an_odd_stream_ends_its_call_and_nothing_else(tmp_path, kind):
    with listening("hostile_sse_server.py") as server:
        async with running(tmp_path, reached(server), rough(tmp_path, "good")) as fleet:
            with anyio.fail_after(120), pytest.raises(UpstreamError):
                await call(fleet, "one/stream", kind=kind)
            assert text_of(await call(fleet, "good/echo")) == "{}"
            assert text_of(await call(fleet, "one/quick")) == "done"


@pytest.mark.skipif(sys.platform == "win32", reason="no background gateway")
def test_texts_of_streams_do_not_fill_the_log():
    machine = Machine()
    with listening("hostile_sse_server.py") as server:
        machine.write(one={"url": f"http://127.0.0.1:{server.port}/mcp"})
        try:
            client = machine.client("--alone")
            client.initialize()
            assert not client.call("one/quick").get("isError")
            for kind in ("names", "long name", "no JSON"):
                params = {"name": "one/stream", "arguments": {"kind": kind}}
                assert client.ask("tools/call", name="call_tool", arguments=params)
            client.close()
            assert len(client.stderr) < 5_000
            assert b"\x1b" not in client.stderr
        finally:
            machine.close()
