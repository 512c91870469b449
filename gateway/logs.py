"""What the servers' processes write to stderr: a log each, of bounded size."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

#: Bytes of a log from which on a new one begins; one old log is kept.
ROTATED_FROM = 1_000_000
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


def state_folder() -> Path:
    """The folder for logs and pins of the gateway, in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "shortlist"


def log_folder() -> Path:
    """The folder of the logs."""
    return state_folder() / "logs"


def log_path(server: str, folder: Path | None = None) -> Path:
    """The log of a server; servers with different names have different logs."""
    name = _OTHER.sub("_", server).strip("._")[:80]
    if name != server:
        name += f"-{hashlib.sha256(server.encode()).hexdigest()[:8]}"
    return (folder or log_folder()) / f"{name}.log"


class ServerLog:
    """A log file that starts again when it is full, also while its server runs.

    At most two files of `ROTATED_FROM` bytes are kept: the log and `*.old.log` before it.

    Args:
        path: of the log; its folder is made.

    Raises:
        OSError: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        # What does not fit the two files together would be lost in the next rotation anyway.
        data = data[-ROTATED_FROM:]
        if self._size and self._size + len(data) > ROTATED_FROM:
            self._file.close()
            self.path.replace(self.path.with_suffix(".old.log"))
            self._file = self.path.open("ab")
            self._size = 0
        self._file.write(data)
        self._file.flush()
        self._size += len(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def log_opener(folder: Path | None = None) -> Callable[[str], ServerLog]:
    """Opens the log of a server for appending.

    Args:
        folder: of the logs; the user's state folder when absent.
    """
    return lambda server: ServerLog(log_path(server, folder))
