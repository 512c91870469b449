"""Log files of the stderr of server processes.

Bounded in size, with the most useful line since a given time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Self

from ...catalog.text_file import OWNER_ONLY_MODE
from .masking import redacted
from .server_spec import ServerSpec
from .user_folders import own_folder, state_folder

#: Size in bytes at which a new log begins. One old log is kept.
MAX_LOG_BYTES = 1_000_000
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

    At most two files of `MAX_LOG_BYTES` bytes are kept: the log and `*.old.log` before it. Only the
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
        super().__init__(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="latin-1")
        self.namer = lambda _: str(path.with_suffix(".old.log"))

    def write(self, data: bytes) -> None:
        """Append bytes."""
        # The next rotation would delete what does not fit into both files.
        text = data[-MAX_LOG_BYTES:].decode("latin-1")
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
    return os.open(path, flags, OWNER_ONLY_MODE)


def log_opener(folder: Path | None = None) -> Callable[[str], ServerLog]:
    """A function that opens the log of a server for appending.

    Args:
        folder: folder of the logs; the user's state folder by default.
    """
    return lambda server: ServerLog(log_path(server, folder))


_MAX_REASON_CHARS, _MAX_TAIL_BYTES = 200, 100_000
#: A line that states an error: `TypeError: ...`, `[ERROR] ...`, `fatal: ...`, `"level":"error"`.
_ERROR_STATEMENT = re.compile(
    r"""\b\w*(?:Error|Exception)\b(?:\ \[\w+\])?:
    |\b(?i:error|fatal|panic|critical)\b\]?:
    |\b(?:ERROR|FATAL|CRITICAL)\b
    |\[(?i:error|fatal)\]
    |"level":\s*"(?:error|fatal)"
    |^(?i:error|fatal|panic)\b""",
    re.VERBOSE,
)
_ERROR_WORDS = re.compile(
    r"error|exception|fail|requir|missing|invalid|cannot|could not|not found|denied|must be",
    re.IGNORECASE,
)
#: A line beside an error: a frame of a stack, a source, or where to read more.
_BESIDE_ERROR = re.compile(
    r"^(?:at\s|File\s\"|node:|Require\ stack|requireStack|code:|errno:|syscall:)"
    r"|complete log of this run|further information|--help\b|^usage:",
    re.IGNORECASE,
)
#: A line of npm's report of one error. The first one without such a key says what is wrong.
_NPM_ERROR_LINE = re.compile(
    r"^npm (?:error|ERR!)\s*(?:code |errno |syscall |path |command |dest )?"
)


def error_line(lines: Iterable[str]) -> str:
    """The line of a program's output that says what is wrong; the last line if none does.

    A line that states an error comes before a line that has a word such as "missing" in it. Of
    several, the last one is taken: it is the one that ended the program.
    """
    texts = [line.strip() for line in lines if re.search(r"[^\W\d_]", line)]
    candidates = [text for text in texts if not _BESIDE_ERROR.search(text)]
    for says_error in (_states_error, _ERROR_WORDS.search):
        matches = [text for text in candidates if says_error(text)]
        if matches:
            return _first_of_npm(matches)
    return (candidates or texts or [""])[-1]


def _states_error(line: str) -> bool:
    return _NPM_ERROR_LINE.match(line) is not None or _ERROR_STATEMENT.search(line) is not None


def _first_of_npm(lines: list[str]) -> str:
    """The last of some lines; if npm wrote it, the first line of npm that is a sentence."""
    if _NPM_ERROR_LINE.match(lines[-1]) is None:
        return lines[-1]
    for line in lines:
        match = _NPM_ERROR_LINE.match(line)
        if match is not None and match[0].strip() in ("npm error", "npm ERR!"):
            return line
    return lines[-1]


class LogTail:
    """The end of a server's log.

    Args:
        spec: the server.
        new_only: whether it is only what is written from now on.
    """

    def __init__(self, spec: ServerSpec, *, new_only: bool = True) -> None:
        self._spec = spec
        self._path = log_path(spec.name)
        self._start = self._path.stat().st_size if new_only and self._path.exists() else 0

    def reason(self) -> str:
        """The line that says what is wrong, otherwise the last line; "" if there is none.

        Secrets of the configuration and terminal control characters are removed.
        """
        if not self._path.exists():
            return ""
        with self._path.open("rb") as file:
            size = self._path.stat().st_size
            # A log that is smaller than before was started again.
            start = self._start if size >= self._start else 0
            file.seek(max(start, size - _MAX_TAIL_BYTES))
            text = file.read().decode("utf-8", "backslashreplace")
        line = error_line(map(_clean_line, text.splitlines()))
        return redacted(line, self._spec)[:_MAX_REASON_CHARS]


def _clean_line(line: str) -> str:
    without_colours = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line)
    return "".join(character for character in without_colours if character.isprintable()).strip()
