"""Events as a file of JSON lines, written and read back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from threading import Lock
from typing import Any, Self

from ..catalog.text_file import open_file
from ..errors import EventError
from .event import Event


class JsonLines:
    """A sink that appends each event to a file as one line of JSON.

    Each line is one write to a file opened for appending, so lines of several threads, or of
    processes on a local disk, are not mixed. The file is never rotated or cut.

    Args:
        path: the file; created if it does not exist. Its folder must exist.

    Raises:
        EventError: the file cannot be opened.

    Example:
        >>> import os, tempfile
        >>> from shortlist.session import JsonLines, Recorder, Verdict, read_events
        >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
        >>> with JsonLines(path) as log:
        ...     Recorder(log).call("42", 1, Verdict("unknown", "list_invoice"), ms=0.1)
        >>> [event["kind"] for event in read_events(path)]
        ['call']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        try:
            self._file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o644)
            self._end_last_line()
        except (OSError, ValueError) as error:
            raise EventError(f"{self.path}: cannot be opened for events: {error}") from error
        self._open = True

    def __call__(self, event: Event) -> None:
        """Append an event.

        Raises:
            EventError: the log is closed, or the file cannot be written.
        """
        line = json.dumps(event.to_dict(), allow_nan=False, separators=(",", ":")) + "\n"
        data = line.encode("ascii")
        with self._lock:
            if not self._open:
                raise EventError(f"{self.path}: the log is closed")
            written = os.write(self._file, data)
        if written != len(data):
            raise EventError(f"{self.path}: {written} of {len(data)} bytes of an event written")

    def __repr__(self) -> str:
        return f"JsonLines({str(self.path)!r})"

    def close(self) -> None:
        """Close the file. Later events are errors.

        Example:
            >>> import os, tempfile
            >>> from shortlist.session import JsonLines
            >>> log = JsonLines(os.path.join(tempfile.mkdtemp(), "events.jsonl"))
            >>> log.close()
        """
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._file)

    def _end_last_line(self) -> None:
        """End a line that a crash cut off, so that the next event starts on a new line."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_events(path: str | Path) -> Iterator[dict[str, Any] | EventError]:
    """The events of a file in JSON form, in the order they were written.

    Args:
        path: the file.
        Yields: An event; or, for a line that is not an event (as after a crash), an error with the
            line number.

    Raises:
        EventError: the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> from shortlist.session import JsonLines, Recorder, Verdict, read_events
        >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
        >>> with JsonLines(path) as log:
        ...     Recorder(log).call("42", 1, Verdict("unknown", "list_invoice"), ms=0.1)
        >>> [event["tool"] for event in read_events(path)]
        ['list_invoice']
    """
    try:
        with (
            open_file(path, None, error=EventError) as file,
            TextIOWrapper(file, encoding="utf-8", errors="backslashreplace") as lines,
        ):
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _event(line, f"{path}:{number}")
    except OSError as error:
        raise EventError(f"{path}: cannot be read as events: {error}") from error


def _event(line: str, where: str) -> dict[str, Any] | EventError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return EventError(f"{where}: no JSON: {error}")
    if not isinstance(row, dict) or not all(
        isinstance(row.get(name), str) for name in ("kind", "turn_id")
    ):
        return EventError(f"{where}: not an event: it has no `kind` and `turn_id`")
    return row
