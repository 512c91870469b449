"""Memory over many updates. With SHORTLIST_LONG_TESTS=1, over 2,000 of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG = bool(os.environ.get("SHORTLIST_LONG_TESTS"))
UPDATES, EVERY = (2_000, 20) if LONG else (150, 5)
#: Most that memory may be at the end, as a multiple of what it is after a tenth of the updates. A
#: short run still warms up.
GROWTH = 1.05 if LONG else 1.1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_over_updates_of_1000_tools() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.updating_process", str(UPDATES), str(EVERY)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    taken = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(taken) == UPDATES // EVERY
    # Both are averages: what is measured depends on where in a rebuild of BM25 it falls.
    tenth = len(taken) // 10
    early = sum(taken[tenth : 3 * tenth]) / (2 * tenth)
    late = sum(taken[-2 * tenth :]) / (2 * tenth)
    assert late <= GROWTH * early, (early, late, taken)
