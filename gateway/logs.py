"""Log files of bounded size for the stderr of the servers' processes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

#: Size in bytes at which a new log begins. One old log is kept.
ROTATED_FROM = 1_000_000
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")


def state_folder() -> Path:
    """The user's folder for logs and pins of the gateway."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "shortlist"


def log_folder() -> Path:
    """The folder of the logs."""
    return state_folder() / "logs"


def log_path(server: str, folder: Path | None = None) -> Path:
    """Path of a server's log. Each server name has its own log."""
    name = _OTHER.sub("_", server).strip("._")[:80]
    if name != server:
        name += f"-{hashlib.sha256(server.encode()).hexdigest()[:8]}"
    return (folder or log_folder()) / f"{name}.log"


class ServerLog:
    """A log file of bounded size. When it is full, a new one starts, also while the server runs.

    At most two files of `ROTATED_FROM` bytes are kept: the log and `*.old.log` before it.

    Args:
        path: path of the log. Its folder is created.

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
        # The next rotation would delete what does not fit into both files.
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
    """A function that opens the log of a server for appending.

    Args:
        folder: folder of the logs; the user's state folder by default.
    """
    return lambda server: ServerLog(log_path(server, folder))
