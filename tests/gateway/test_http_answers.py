"""Answers of servers over HTTP are bounded after decoding, whatever they say of themselves."""

from __future__ import annotations

import resource
import time
import traceback

import anyio
import pytest

from shortlist.gateway.connections.login import log_in
from shortlist.gateway.upstream.server_connection import ServerState, UpstreamError
from shortlist.tests.gateway.fleets import call, rough, running, text_of, until
from shortlist.tests.gateway.test_oauth import MemoryKeyring
from shortlist.tests.gateway.test_transports import listening, reached

pytestmark = pytest.mark.anyio
JSON, EVENTS = {"Content-Type": "application/json"}, {"Content-Type": "TEXT/Event-Stream"}
BZ2_TEXT = {"Content-Type": "text/event-stream; charset=bz2"}
BOMB = 120_000_000


@pytest.fixture
def anyio_backend():
    return "asyncio"


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def bomb(name, *codings, headers=JSON, marks=(), **more):
    return pytest.param({"headers": headers, "codings": codings, **more}, id=name, marks=marks)


@pytest.mark.parametrize(
    "answer",
    [
        bomb("gzip", "gzip", marks=pytest.mark.long),
        bomb("deflate", "deflate", marks=pytest.mark.long),
        bomb("status", "gzip", status=400, marks=pytest.mark.long),
        bomb("event", "gzip", headers=EVENTS, events="result"),
        bomb("twice", "gzip", "gzip"),
        bomb("comments", "gzip", headers=EVENTS, events="comments"),
        bomb("charset", "bz2", headers=BZ2_TEXT, events="result", marks=pytest.mark.long),
    ],
)
@pytest.mark.no_cover
async def test_a_bomb_costs_the_other_servers_neither_time_nor_memory(tmp_path, answer):
    with listening("rough_http_server.py") as server:
        async with running(tmp_path, reached(server), rough(tmp_path, "good")) as fleet:
            await call(fleet, "good/echo")
            before, longest = peak_bytes(), 0.0
            failed = anyio.Event()

            async def explode():
                with pytest.raises(UpstreamError), anyio.fail_after(60):
                    await call(fleet, "one/answer", size=BOMB, **answer)
                failed.set()

            async with anyio.create_task_group() as group:
                group.start_soon(explode)
                while not failed.is_set():
                    start = time.perf_counter()
                    await call(fleet, "good/echo")
                    longest = max(longest, time.perf_counter() - start)
            assert longest < 1.0
            assert peak_bytes() - before < 100_000_000
            if answer.get("events") == "comments":
                await until(lambda: fleet.upstreams["one"].problem)
                assert "MB of event streams within a minute" in fleet.problems()["one"][0]
                return
            with anyio.fail_after(90):
                while True:
                    try:
                        assert text_of(await call(fleet, "one/say_word")) == "hello"
                        break
                    except UpstreamError:
                        await anyio.sleep(0.2)


@pytest.mark.no_cover
async def test_the_documents_of_a_login_are_bounded(monkeypatch):
    monkeypatch.setattr("keyring.core._keyring_backend", MemoryKeyring())
    with listening("rough_http_server.py") as server:
        before = peak_bytes()

        async def show(page):
            raise AssertionError(f"the documents were read: {page}")

        with pytest.raises(Exception) as error:
            await log_in(reached(server, path="locked"), show)
        assert "an answer of more than" in "".join(traceback.format_exception(error.value))
        assert peak_bytes() - before < 100_000_000


async def test_a_server_that_never_answers_the_end_of_its_session_starts_again(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("shortlist.gateway.connections.http_client._SESSION_END_TIMEOUT_S", 0.3)
    with listening("rough_http_server.py") as server:
        spec = reached(server, path="endless")
        async with running(tmp_path, spec, idle_stop_s=0.3) as fleet:
            assert text_of(await call(fleet, "one/say_word")) == "hello"
            await until(lambda: fleet.upstreams["one"].state is ServerState.KNOWN, 15)
            with anyio.fail_after(10):
                assert text_of(await call(fleet, "one/say_word")) == "hello"
