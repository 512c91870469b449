"""Several processes on one saved index: killed writers, readers beside a writer, two writers."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest
from shortlist import Engine

from .conftest import Models
from .reading_process import check

ROOT = Path(__file__).resolve().parents[2]
KILLS = 30


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.engine.{program}", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def open_engine(folder: Path, backend: str) -> Engine:
    return Engine.open(folder, tiers=["lexical", "embed"], dense={"backend": backend})


def test_a_writer_killed_at_any_point_leaves_a_whole_version(
    models: Models, tmp_path: Path
) -> None:
    choose = random.Random(4)
    last = -1
    for kill in range(KILLS):
        backend = "hnswlib"
        writer = start("saving_process", tmp_path, last + 1, 0, backend)
        assert writer.stdout is not None
        reported = last
        for _ in range(choose.randrange(1, 3)):
            reported = int(writer.stdout.readline())
        sleep(choose.uniform(0, 0.12))
        writer.send_signal(signal.SIGKILL)
        rest, complaint = writer.communicate()
        assert writer.returncode == -signal.SIGKILL, complaint
        reported = max([reported, *map(int, rest.split())])
        number = check(open_engine(tmp_path, backend))
        assert reported <= number <= reported + 1, f"kill {kill}"
        last = number
    assert last >= KILLS - 1
    # What the kills left behind is cleared by the next save that succeeds.
    engine = open_engine(tmp_path, "hnswlib")
    engine.save(tmp_path)
    assert len(list(tmp_path.glob("v-*"))) == 2
    assert check(open_engine(tmp_path, "hnswlib")) == last


@pytest.mark.parametrize("backend", ["exact", "hnswlib"])
def test_two_readers_beside_a_writer(models: Models, tmp_path: Path, backend: str) -> None:
    first = start("saving_process", tmp_path, 0, 1, backend)
    assert first.communicate()[0] == "0\n"
    writer = start("saving_process", tmp_path, 1, 0, backend)
    readers = [start("reading_process", tmp_path, 40, backend) for _ in range(2)]
    for reader in readers:
        said, complaint = reader.communicate(timeout=120)
        assert reader.returncode == 0, complaint
        early, late = map(int, said.split())
        assert early < late
    writer.kill()
    writer.communicate()


def test_two_writers_take_turns(models: Models, tmp_path: Path) -> None:
    writers = [start("saving_process", tmp_path, first, 8, "exact") for first in (0, 100)]
    for writer, first in zip(writers, (0, 100), strict=True):
        said, complaint = writer.communicate(timeout=120)
        assert writer.returncode == 0, complaint
        assert list(map(int, said.split())) == list(range(first, first + 8))
    assert check(open_engine(tmp_path, "exact")) in {7, 107}
    assert (tmp_path / "CURRENT").read_text() == "v-000016"
