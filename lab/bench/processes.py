"""Runs jobs in new processes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any

import numpy as np

from ...errors import EvaluationError


def run_job(name: str, **arguments: Any) -> dict[str, Any]:
    """Run a job of `jobs` in a new interpreter.

    Raises:
        EvaluationError: it failed. The message has the end of its stderr.
    """
    command = (sys.executable, "-m", "shortlist.lab.bench.jobs", name, json.dumps(arguments))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise EvaluationError(f"measuring {name} in a process failed: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def import_cpu_seconds(repeats: int) -> tuple[float, float]:
    """CPU seconds of `import numpy`, and of `import shortlist` beyond it.

    User and system time of whole interpreters, the two in turn; medians. numpy is imported first in
    both, so that the difference is what shortlist adds even though it imports no numpy itself.

    Args:
        repeats: interpreters of each kind.
    """
    times: dict[str, list[float]] = {"import numpy": [], "import numpy, shortlist": []}
    for code in times:
        _interpreter_cpu(code)
    for _ in range(repeats):
        for code, found in times.items():
            found.append(_interpreter_cpu(code))
    alone, both = (float(np.median(found)) for found in times.values())
    return alone, both - alone


def _interpreter_cpu(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run((sys.executable, "-c", code), check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
