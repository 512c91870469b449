"""A server that writes without end is stopped, and the other servers' calls stay fast."""

from __future__ import annotations

import time
from statistics import median

import anyio
import psutil
import pytest

from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.tests.gateway.fleets import call, rough, running, text_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


#: Those that take longest. A flood of requests is also one of valid messages.
LONG = {"empty", "json", "logs", "answers"}
#: The keys of `FLOODS` in `rough_server.py`, which only runs as a process.
FLOODS = ("text", "empty", "json", "no end", "logs", "answers", "requests", "questions")
KINDS = [pytest.param(kind, marks=pytest.mark.long if kind in LONG else ()) for kind in FLOODS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.no_cover
async def test_a_flood_is_stopped_and_other_calls_stay_fast(tmp_path, kind, caplog):
    async with running(
        tmp_path, rough(tmp_path, "one", "floods"), rough(tmp_path, "good")
    ) as fleet:
        await call(fleet, "good/echo")
        pid = int((tmp_path / "one" / "pid").read_text())
        seconds = []
        has_ended = anyio.Event()

        async def flood():
            with pytest.raises(UpstreamError, match="ended during the call"):
                await call(fleet, "one/flood_stdout", kind=kind)
            has_ended.set()

        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                group.start_soon(flood)
                while not has_ended.is_set():
                    start = time.perf_counter()
                    await call(fleet, "good/echo")
                    seconds.append(time.perf_counter() - start)
            assert median(seconds) < 0.15
            await until(lambda: not psutil.pid_exists(pid))
        await until(lambda: fleet.upstreams["one"].problem)
        assert "it was stopped, because it sent" in fleet.problems()["one"][0]
        assert len(caplog.records) < 50
        with pytest.raises(
            UpstreamError, match=r"flooded: it was stopped.*tried again in [0-9]+ s"
        ):
            await call(fleet, "one/echo")
        assert text_of(await call(fleet, "good/echo")) == "{}"
