"""Memory over many updates and many engines. With SHORTLIST_LONG_TESTS=1, over 2,000 updates."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG = bool(os.environ.get("SHORTLIST_LONG_TESTS"))
TOOLS, UPDATES, EVERY = (1_000, 2_000, 20) if LONG else (300, 100, 5)
#: Most that memory may be at the end, as a multiple of what it is after a tenth of the updates. A
#: short run still warms up.
GROWTH = 1.05 if LONG else 1.1
ROUNDS = 200 if LONG else 24
#: Updates of a few tools, and megabytes that memory may be more at the end than after the first.
#: What the threads of the builds leave to glibc is some 90 MB.
REBUILDS, REBUILDS_MB = 80, 40.0
#: Megabytes that memory may grow over the last three quarters of the rounds. Each thread that
#: tantivy starts keeps megabytes if it leaks; these rounds start some 70.
ROUNDS_MB = 3.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def measured(program: str, *arguments: object, arenas: str = "1") -> list[str]:
    # By default glibc gives threads arenas of their own, which keep what is freed in them: some
    # 40 MB up and down, whatever the program does.
    environment = {**os.environ, "MALLOC_ARENA_MAX": arenas}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.engine.{program}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_memory_stays_flat_over_updates() -> None:
    taken = [float(line.split()[1]) for line in measured("updating_process", TOOLS, UPDATES, EVERY)]
    assert len(taken) == UPDATES // EVERY
    # Both are averages: what is measured depends on where in a rebuild of BM25 it falls.
    tenth = len(taken) // 10
    early = sum(taken[tenth : 3 * tenth]) / (2 * tenth)
    late = sum(taken[-2 * tenth :]) / (2 * tenth)
    assert late <= GROWTH * early, (early, late, taken)


def test_engines_that_are_made_saved_and_opened_leave_no_memory(tmp_path: Path) -> None:
    taken = [float(line) for line in measured("making_process", tmp_path / "index", ROUNDS)]
    assert len(taken) == ROUNDS
    assert taken[-1] <= taken[ROUNDS // 4] + ROUNDS_MB, taken


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_builds_return_their_memory_to_the_system() -> None:
    # Sixteen arenas, as on a machine with two processors.
    taken = [float(line) for line in measured("rebuilding_process", REBUILDS, arenas="16")]
    assert len(taken) == REBUILDS
    assert taken[-1] <= taken[0] + REBUILDS_MB, taken
