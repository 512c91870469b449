"""What the servers' processes write to stderr, a file each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

#: Bytes of a log from which on the next start begins a new one; one old file is kept.
_ROTATED_FROM = 1_000_000
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


def log_folder() -> Path:
    """The folder of the logs, in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "shortlist" / "logs"


def log_path(server: str, folder: Path | None = None) -> Path:
    """The log of a server."""
    name = _OTHER.sub("_", server).strip("._") or "server"
    return (folder or log_folder()) / f"{name}.log"


def log_opener(folder: Path | None = None) -> Callable[[str], IO[str]]:
    """Opens the log of a server for appending, and rotates it where it has grown.

    Args:
        folder: of the logs; the user's state folder when absent.
    """

    def opened(server: str) -> IO[str]:
        path = log_path(server, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _ROTATED_FROM:
            path.replace(path.with_suffix(".old.log"))
        return path.open("a", encoding="utf-8", errors="backslashreplace")

    return opened
