"""One server's life: starts, limits of time, failures, restarts, and what it leaves behind."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.gateway.connections.server_log import MAX_LOG_BYTES, ServerLog
from shortlist.gateway.connections.server_process import (
    MAX_MESSAGE_BYTES,
    LineReader,
    OversizedLine,
    RunningProcesses,
)
from shortlist.gateway.upstream.server_connection import ConnectionLostError, UpstreamError
from shortlist.tests.gateway.fleets import call, noted, rough, running, text_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_progress_starts_the_limit_anew_and_silence_ends_the_call(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", timeout_s=1.0)) as fleet:
        slow = {"steps": 6, "seconds": 0.4}
        assert text_of(await call(fleet, "one/sleep", **slow, progress=True)) == "slept"
        with pytest.raises(UpstreamError, match="did not answer within 1 s"):
            await call(fleet, "one/sleep", **slow)
        await until(lambda: noted(tmp_path, "one", "cancelled") == 1)
        assert text_of(await call(fleet, "one/echo", a=1)) == '{"a": 1}'
        assert noted(tmp_path, "one", "starts") == 1


async def test_a_limit_of_one_tool_wins_over_its_servers(tmp_path):
    spec = rough(tmp_path, "one", timeout_s=0.3)
    async with running(tmp_path, spec, timeouts={"one/sl*": 20.0}) as fleet:
        assert text_of(await call(fleet, "one/sleep", steps=1, seconds=1.0)) == "slept"


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        with anyio.move_on_after(0.5):
            await call(fleet, "one/sleep", steps=100, seconds=0.1)
        await until(lambda: noted(tmp_path, "one", "cancelled") == 1)


async def test_only_a_tool_that_reads_is_called_again(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        assert text_of(await call(fleet, "one/read_and_die")) == "alive"
        assert noted(tmp_path, "one", "called_read_and_die") == 2
        with pytest.raises(ConnectionLostError, match="ended during the call"):
            await call(fleet, "one/die")
        assert noted(tmp_path, "one", "called_die") == 1
        assert text_of(await call(fleet, "one/die")) == "alive"
        assert noted(tmp_path, "one", "starts") == 3


async def fail_three_times(fleet, *, deaths):
    """Call a server that ends in its first calls, as many as `deaths`, until it is not tried."""
    for _ in range(3):
        with pytest.raises(ConnectionLostError):
            await call(fleet, "one/die", times=deaths)
    await until(lambda: fleet.upstreams["one"].state == "failed")


async def test_after_three_failures_calls_are_refused_at_once_until_one_succeeds(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        await fail_three_times(fleet, deaths=3)
        starts = noted(tmp_path, "one", "starts")
        with pytest.raises(UpstreamError, match="not available"), anyio.fail_after(0.3):
            await call(fleet, "one/die", times=3)
        assert noted(tmp_path, "one", "starts") == starts
        await anyio.sleep(2.2)
        results = []

        async def again():
            results.append(text_of(await call(fleet, "one/die", times=3)))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(again)
        assert results == ["alive"] * 5
        assert noted(tmp_path, "one", "starts") == starts + 1
        assert fleet.problems() == {"one": []}


async def test_calls_that_wait_for_a_try_are_refused_once_it_failed(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", start_timeout_s=60)) as fleet:
        await fail_three_times(fleet, deaths=9)
        starts = noted(tmp_path, "one", "starts")
        await anyio.sleep(2.2)
        errors = []

        async def again():
            with pytest.raises(UpstreamError) as error:
                await call(fleet, "one/die", times=9)
            errors.append(type(error.value))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(again)
        assert errors == [ConnectionLostError, *[UpstreamError] * 4]
        assert noted(tmp_path, "one", "starts") == starts + 1


async def test_a_call_waits_for_the_try_of_another_one_no_longer_than_for_a_start(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", start_timeout_s=5)) as fleet:
        await fail_three_times(fleet, deaths=3)
        await anyio.sleep(2.2)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call(fleet, "one/sleep", steps=1, seconds=60))
            await until(lambda: noted(tmp_path, "one", "called_sleep") == 1)
            with anyio.fail_after(30), pytest.raises(UpstreamError, match="another call tries it"):
                await call(fleet, "one/echo")
            group.cancel_scope.cancel()


async def test_a_server_that_hangs_in_calls_is_started_again(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", timeout_s=0.2)) as fleet:
        for _ in range(3):
            with pytest.raises(UpstreamError, match="did not answer"):
                await call(fleet, "one/sleep", steps=1, seconds=60)
        assert text_of(await call(fleet, "one/echo")) == "{}"
        assert noted(tmp_path, "one", "starts") == 2


async def test_a_server_that_ends_while_idle_is_back_for_the_next_call(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        os.kill(int((tmp_path / "one" / "pid").read_text()), signal.SIGKILL)
        await until(lambda: fleet.upstreams["one"].state == "failed")
        assert fleet.problems() == {"one": ["the connection ended"]}
        assert text_of(await call(fleet, "one/echo")) == "{}"


async def test_an_idle_server_stops_with_its_children_and_starts_again(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one"), idle_stop_s=0.5) as fleet:
        child = int(text_of(await call(fleet, "one/child")))
        assert psutil.pid_exists(child)
        assert text_of(await call(fleet, "one/sleep", steps=1, seconds=1.5)) == "slept"
        await until(lambda: fleet.upstreams["one"].state == "known")
        await until(lambda: not _runs(child))
        assert list((tmp_path / "running").glob("*.json")) == []
        assert text_of(await call(fleet, "one/echo")) == "{}"


async def test_a_server_that_is_called_again_and_again_is_not_idle(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one"), idle_stop_s=0.3) as fleet:
        for _ in range(12):
            await call(fleet, "one/echo")
            await anyio.sleep(0.05)
    assert noted(tmp_path, "one", "starts") == 1


async def test_a_server_that_stays_after_its_input_ends_is_killed(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "stays")):
        pid = int((tmp_path / "one" / "pid").read_text())
        assert _runs(pid)
    assert not _runs(pid)


async def test_noise_on_stdout_is_skipped_and_named(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "noisy")) as fleet:
        assert text_of(await call(fleet, "one/noise")) == "made noise"
        assert list(fleet.upstreams["one"].stray_lines) == [
            "Listening on port 3000 ...",
            "{not json",
            "this is no message",
        ]
        (problem,) = fleet.problems()["one"]
        assert "3 lines to stdout" in problem
        assert "this is no message" in problem


async def test_stderr_is_bounded_while_the_server_runs(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        await call(fleet, "one/flood", blocks=50)
        logs = tmp_path / "logs"
        await until(lambda: (logs / "one.old.log").exists())
        await anyio.sleep(0.2)
        sizes = [path.stat().st_size for path in logs.iterdir()]
        assert len(sizes) == 2
        assert max(sizes) <= MAX_LOG_BYTES


def test_a_log_keeps_the_end_of_what_was_written(tmp_path):
    with ServerLog(tmp_path / "a.log") as log:
        log.write(b"x" * 5 * MAX_LOG_BYTES)
        log.write(b"last")
    assert (tmp_path / "a.log").read_bytes() == b"last"
    with ServerLog(tmp_path / "a.log") as log:
        log.write(b" words")
    assert (tmp_path / "a.log").read_bytes() == b"last words"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_a_log_has_the_bytes_that_a_server_wrote(chunks):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "logs" / "a.log"
        with ServerLog(path) as log:
            for chunk in chunks:
                log.write(chunk)
        assert path.read_bytes() == b"".join(chunks)
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    with ServerLog(tmp_path / "a.log") as log:
        log.write(b"x" * (MAX_LOG_BYTES - 2))
        (tmp_path / "a.old.log").mkdir()
        (tmp_path / "a.old.log" / "file").touch()
        with pytest.raises(OSError, match=r"old\.log"):
            log.write(b"last")


@given(
    st.lists(st.integers(0, 30), max_size=12),
    st.lists(st.integers(50, 60_000), min_size=1, max_size=20),
    st.integers(0, 30_000),
)
def test_lines_come_whole_whatever_the_chunks(lengths, steps, most):
    """Chunks end anywhere; a line above the limit gives its two ends and its size."""
    given_lines = [bytes(97 + (at * 7) % 26 for at in range(size**3)) for size in lengths]
    data = b"".join(line + b"\n" for line in given_lines) + b"rest"
    lines, got, at = LineReader(max_bytes=most), [], 0
    for step in itertools.cycle(steps):
        got += lines.feed(data[at : at + step])
        at += step
        if at >= len(data):
            break
    assert len(got) == len(given_lines)
    for line, read in zip(given_lines, got, strict=True):
        if len(line) <= most:
            assert read == line
        else:
            assert isinstance(read, OversizedLine)
            assert read.size == len(line)
            assert line.startswith(read.head[:4_096])
            assert line.endswith(read.tail[-4_096:])
            assert min(len(read.head), len(read.tail)) >= min(len(line), 4_096)


async def test_a_result_that_is_too_large_is_refused_and_the_server_stays(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        assert len(text_of(await call(fleet, "one/big", bytes=2_000_000))) == 2_000_000
        with pytest.raises(UpstreamError, match="more than the limit"):
            await call(fleet, "one/big", bytes=100_000_000)
        assert text_of(await call(fleet, "one/echo")) == "{}"
        assert noted(tmp_path, "one", "starts") == 1
        assert f"{MAX_MESSAGE_BYTES:,}" in fleet.problems()["one"][0]


def test_what_a_killed_gateway_left_is_swept_and_nothing_else(tmp_path):
    """The gateway is a process that starts a server with a child, and is killed."""
    script = tmp_path / "gateway.py"
    script.write_text(
        "import os, subprocess, sys, time\n"
        "from pathlib import Path\n"
        "from shortlist.gateway.connections.server_process import RunningProcesses\n"
        f"running = RunningProcesses(Path({str(tmp_path / 'running')!r}))\n"
        'inner = \'import subprocess, sys, time; subprocess.Popen([sys.executable, "-c", '
        '"import time; time.sleep(300)"]); time.sleep(300)\'\n'
        "server = subprocess.Popen([sys.executable, '-c', inner], start_new_session=True,\n"
        "    env={**os.environ, **running.mark})\n"
        "running.record_start(server.pid)\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    gateway = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    server = int(gateway.stdout.readline())
    while len(children := psutil.Process(server).children()) != 1:
        pass
    running = RunningProcesses(tmp_path / "running")
    assert running.end_leftovers() == []  # its gateway is alive
    gateway.kill()
    gateway.wait()
    gateway.stdout.close()
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "running" / f"{bystander.pid}.json").write_text(
        f'{{"pid": {bystander.pid}, "started": 5.0, "owner": {gateway.pid}, "owner_started": 5.0}}'
    )
    try:
        assert sorted(running.end_leftovers()) == sorted([server, children[0].pid])
        psutil.wait_procs([*children], timeout=10)
        assert not _runs(children[0].pid)
        assert bystander.poll() is None
        assert list((tmp_path / "running").iterdir()) == []
    finally:
        bystander.communicate()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
