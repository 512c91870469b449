"""Finds and ends server processes that a killed gateway left running."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .user_folders import state_folder

_LOG = logging.getLogger("shortlist.gateway")
#: Tolerance in seconds between two readings of a process's start time.
_CLOCK = 2.0
_MARK = "SHORTLIST_GATEWAY"


class RunningProcesses:
    """A record on disk of this gateway's processes, so that the next gateway can end them.

    A process is identified by its id and its start time, because operating systems reuse ids.

    Args:
        folder: folder with one file for each process, created with the first one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def default(cls) -> RunningProcesses:
        """The record in the user's state folder."""
        return cls(state_folder() / "running")

    @property
    def mark(self) -> dict[str, str]:
        """Environment variables that identify the processes of this gateway and their children."""
        return {_MARK: _mark(os.getpid(), _start_time(os.getpid()))}

    def started(self, pid: int) -> None:
        """Record a process that is the leader of its process group.

        Raises:
            OSError: the file cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        noted = {
            "pid": pid,
            "started": _start_time(pid),
            "owner": os.getpid(),
            "owner_started": _start_time(os.getpid()),
        }
        self._path(pid).write_text(json.dumps(noted), encoding="utf-8")

    def stopped(self, pid: int) -> None:
        """Remove a process from the record."""
        self._path(pid).unlink(missing_ok=True)

    def sweep(self) -> list[int]:
        """End the processes of gateways that no longer run.

        Returns:
            Ids of the processes that were ended.
        """
        ended: list[int] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                noted = json.loads(path.read_text(encoding="utf-8"))
                if _is_alive(noted["owner"], noted["owner_started"]):
                    continue
                ended += _end(noted)
            except (OSError, ValueError, KeyError, TypeError) as error:
                _LOG.warning("%s is not a record of a process and is deleted: %s", path, error)
            path.unlink(missing_ok=True)
        return ended

    def _path(self, pid: int) -> Path:
        return self._folder / f"{pid}.json"


def _end(noted: Mapping[str, Any]) -> list[int]:
    """Kill a process, and the members of its group that have its gateway's variables."""
    import psutil

    mark = _mark(noted["owner"], noted["owner_started"])
    ended = []
    for process in psutil.process_iter():
        try:
            if process.pid == noted["pid"]:
                ours = _is_alive(process.pid, noted["started"])
            else:
                ours = _group(process.pid) == noted["pid"]
                ours = ours and process.environ().get(_MARK) == mark
            if ours:
                os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
                ended.append(process.pid)
        except (OSError, psutil.Error):
            continue  # gone by now, or of another user and so not ours
    return ended


def _group(pid: int) -> int | None:
    return os.getpgid(pid) if hasattr(os, "getpgid") else None


def _start_time(pid: int) -> float:
    """Start time in seconds since 1970; 0 if the process is gone."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def _is_alive(pid: int, started: float) -> bool:
    return abs(_start_time(pid) - started) < _CLOCK


def _mark(owner: int, started: float) -> str:
    return f"{owner}-{started:.0f}"
