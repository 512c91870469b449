"""Resident memory of the running process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_mb() -> float:
    """Megabytes (10^6 bytes) resident now; where the system does not say, the peak."""
    return _status("VmRSS")


def peak_mb() -> float:
    """Megabytes (10^6 bytes) resident at most since the program was started.

    `ru_maxrss` is only the fallback: on Linux a program inherits it from the one that forked it.
    """
    return _status("VmHWM")


def _status(field: str) -> float:
    if _STATUS.is_file():
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
