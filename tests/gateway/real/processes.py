"""What Linux says of a process: what it started, what it has open, what it holds in memory."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> dict[int, list[str]]:
    """Every process that a process started, directly or not, with its command line."""
    parents: dict[int, int] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            # The name in brackets may hold blanks and brackets itself.
            after = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if after[0] != "Z":
            parents[int(folder.name)] = int(after[1])
    found: dict[int, list[str]] = {}
    below = {pid}
    while below:
        below = {child for child, parent in parents.items() if parent in below} - set(found)
        for child in below:
            try:
                words = (_PROC / str(child) / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            found[child] = words.split("\0")
    return found


def open_files(pid: int) -> int:
    """How many file descriptors a process has open."""
    return len(list((_PROC / str(pid) / "fd").iterdir()))


def resident(pid: int) -> int:
    """Bytes of memory that a process has in use."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system says nothing of the process's memory")


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has used, however busy the machine is."""
    after = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")
