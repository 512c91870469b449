"""Several processes on one saved index: killed and interrupted ones, readers, two writers.

With SHORTLIST_LONG_TESTS=1, 50 processes are killed at any point instead of 3.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, sleep

import pytest

from shortlist import Engine

from .conftest import Models
from .reading_process import check

ROOT = Path(__file__).resolve().parents[2]
KILLS = 25 if os.environ.get("SHORTLIST_LONG_TESTS") else 8
READS = 20 if os.environ.get("SHORTLIST_LONG_TESTS") else 5
KILLS_ANYWHERE = 50 if os.environ.get("SHORTLIST_LONG_TESTS") else 3

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts one of the programs beside this file; none outlives the test."""
    with ExitStack() as running:

        def begin(program: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", f"tests.engine.{program}", *map(str, arguments)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment},
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield begin


def open_engine(folder: Path, backend: str) -> Engine:
    return Engine.open(folder, tiers=["lexical", "embed"], dense={"backend": backend})


def test_a_writer_killed_at_any_point_leaves_a_whole_version(
    start: Start, models: Models, tmp_path: Path
) -> None:
    choose = random.Random(4)
    last, interrupted = -1, 0
    for kill in range(KILLS):
        writer = start("saving_process", tmp_path, last + 1, 0, "hnswlib")
        assert writer.stdout is not None
        writer.stdout.readline()
        start_of_save = perf_counter()
        reported = int(writer.stdout.readline())
        # Anywhere in the save after, however long a save takes here and now.
        sleep(choose.uniform(0, perf_counter() - start_of_save))
        writer.send_signal(signal.SIGKILL)
        rest, complaint = writer.communicate()
        assert writer.returncode == -signal.SIGKILL, complaint
        reported = max([reported, *map(int, rest.split())])
        number = check(open_engine(tmp_path, "hnswlib"))
        newest = max(int(path.name[2:]) for path in tmp_path.glob("v-*"))
        interrupted += newest > int((tmp_path / "CURRENT").read_text()[2:])
        assert reported <= number <= reported + 1, f"kill {kill}"
        last = number
    assert last >= KILLS - 1
    assert interrupted > 0
    # What the kills left behind is cleared by the next save that succeeds.
    engine = open_engine(tmp_path, "hnswlib")
    engine.save(tmp_path)
    assert len(list(tmp_path.glob("v-*"))) == 2
    assert check(open_engine(tmp_path, "hnswlib")) == last


def test_processes_killed_at_any_point_leave_nothing_behind(
    start: Start, models: Models, tmp_path: Path
) -> None:
    choose = random.Random(7)
    folder, temporary = tmp_path / "index", tmp_path / "temporary"
    temporary.mkdir()
    last, reported = -1, -1
    for kill in range(KILLS_ANYWHERE):
        process = start("killed_process", folder, last + 1, TMPDIR=str(temporary))
        assert process.stdout is not None
        # The first round saves, opens twice, updates; the kill falls anywhere in a later one.
        process.stdout.readline()
        began = perf_counter()
        reported = int(process.stdout.readline())
        sleep(choose.uniform(0, 2 * (perf_counter() - began)))
        process.send_signal(signal.SIGKILL)
        rest, complaint = process.communicate()
        assert process.returncode == -signal.SIGKILL, complaint
        reported = max([reported, *map(int, rest.split())])
        [found] = re.findall(r"note (\d+)", open_engine(folder, "hnswlib").catalog[0].description)
        last = int(found)
        # What it was saving when it was killed is current or not; what it had saved is.
        assert reported - 1 <= last <= reported, f"kill {kill}"
        assert len(list(folder.glob("v-*"))) <= 3
    opened = open_engine(folder, "hnswlib")
    opened.save(folder)
    versions = {path.name for path in folder.glob("v-*")}
    assert (folder / "CURRENT").read_text() in versions
    assert len(versions) <= 2
    assert {path.name for path in folder.iterdir()} == {"CURRENT", "LOCK", *versions}
    assert len(open_engine(folder, "hnswlib").catalog) == 200 + last % 30
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child alone")
def test_an_interrupted_save_leaves_nothing_of_its_own(
    start: Start, models: Models, tmp_path: Path
) -> None:
    choose = random.Random(5)
    for first in (0, 100):
        writer = start("saving_process", tmp_path, first, 0, "hnswlib")
        assert writer.stdout is not None
        writer.stdout.readline()
        began = perf_counter()
        writer.stdout.readline()
        sleep(choose.uniform(0, perf_counter() - began))
        writer.send_signal(signal.SIGINT)
        _, complaint = writer.communicate(timeout=180)
        assert "KeyboardInterrupt" in complaint
        current = int((tmp_path / "CURRENT").read_text()[2:])
        assert max(int(path.name[2:]) for path in tmp_path.glob("v-*")) == current
        assert not (tmp_path / "CURRENT.new").exists()
        check(open_engine(tmp_path, "hnswlib"))


def test_two_readers_beside_a_writer(start: Start, models: Models, tmp_path: Path) -> None:
    writer = start("saving_process", tmp_path, 0, 0, "hnswlib")
    assert writer.stdout is not None
    writer.stdout.readline()
    readers = [start("reading_process", tmp_path, READS, "hnswlib") for _ in range(2)]
    for reader in readers:
        _, complaint = reader.communicate(timeout=120)
        assert reader.returncode == 0, complaint
    assert writer.poll() is None


def test_two_writers_take_turns(start: Start, models: Models, tmp_path: Path) -> None:
    writers = [start("saving_process", tmp_path, first, 4, "exact") for first in (0, 100)]
    for writer, first in zip(writers, (0, 100), strict=True):
        said, complaint = writer.communicate(timeout=120)
        assert writer.returncode == 0, complaint
        assert list(map(int, said.split())) == list(range(first, first + 4))
    assert check(open_engine(tmp_path, "exact")) in {3, 103}
    assert (tmp_path / "CURRENT").read_text() == "v-000008"
