"""Log files of the stderr of server processes.

Bounded in size, with the most useful line since a given time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Self

from ...catalog.text_file import OWNER_ONLY
from .masking import redacted
from .server_spec import ServerSpec
from .user_folders import own_folder, state_folder

#: Size in bytes at which a new log begins. One old log is kept.
ROTATED_FROM = 1_000_000
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


def log_folder() -> Path:
    """The folder of the logs."""
    return state_folder() / "logs"


def log_path(server: str, folder: Path | None = None) -> Path:
    """Path of a server's log. Each server name has its own log."""
    name = _UNSAFE_CHARACTERS.sub("_", server).strip("._")[:80]
    if name != server:
        name += f"-{hashlib.sha256(server.encode()).hexdigest()[:8]}"
    return (folder or log_folder()) / f"{name}.log"


class ServerLog(RotatingFileHandler):
    """A log file of bounded size. When it is full, a new one starts, also while the server runs.

    At most two files of `ROTATED_FROM` bytes are kept: the log and `*.old.log` before it. Only the
    user may read them and open their folder.

    Args:
        path: path of the log. Its folder is created.

    Raises:
        OSError: the file cannot be opened or written.
    """

    terminator = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        own_folder(path.parent)
        # In Latin-1 a character is a byte: the file gets what the server wrote.
        super().__init__(path, maxBytes=ROTATED_FROM, backupCount=1, encoding="latin-1")
        self.namer = lambda _: str(path.with_suffix(".old.log"))

    def write(self, data: bytes) -> None:
        """Append bytes."""
        # The next rotation would delete what does not fit into both files.
        text = data[-ROTATED_FROM:].decode("latin-1")
        self.handle(logging.makeLogRecord({"msg": text}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        """Raise the error of a write; `logging` would print it."""
        raise

    def _open(self) -> TextIOWrapper:
        return open(self.path, "a", encoding=self.encoding, opener=_open_privately)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, OWNER_ONLY)


def log_opener(folder: Path | None = None) -> Callable[[str], ServerLog]:
    """A function that opens the log of a server for appending.

    Args:
        folder: folder of the logs; the user's state folder by default.
    """
    return lambda server: ServerLog(log_path(server, folder))


_ERROR_WORDS = re.compile(
    r"error|exception|fail|requir|missing|invalid|cannot|not found|denied", re.IGNORECASE
)
_REASON_CHARS, _MOST_READ_BYTES = 200, 100_000


class LogTail:
    """The part of a server's log that is written from now on.

    Args:
        spec: the server.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._path = log_path(spec.name)
        self._start = self._path.stat().st_size if self._path.exists() else 0

    def reason(self) -> str:
        """The last line about an error, otherwise the last line; "" if there is none.

        Secrets of the configuration and terminal control characters are removed.
        """
        if not self._path.exists():
            return ""
        with self._path.open("rb") as file:
            size = self._path.stat().st_size
            # A log that is smaller than before was started again.
            start = self._start if size >= self._start else 0
            file.seek(max(start, size - _MOST_READ_BYTES))
            text = file.read().decode("utf-8", "backslashreplace")
        lines = [
            line for line in map(_clean_line, text.splitlines()) if re.search(r"[^\W\d_]", line)
        ]
        error_lines = [line for line in lines if _ERROR_WORDS.search(line)]
        return redacted((error_lines or lines or [""])[-1], self._spec)[:_REASON_CHARS]


def _clean_line(line: str) -> str:
    without_colours = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
    return "".join(character for character in without_colours if character.isprintable()).strip()
