"""The last events, from a file that may grow or straight from a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from ..catalog.text_file import open_file
from ..errors import EventError
from ..session.event import Event
from ..session.event_stats import EventStats
from ..session.recorder import parse_event

Row = dict[str, Any]
#: Statuses of calls that the model can mend and send again.
MENDABLE_STATUSES = frozenset({"promoted", "invalid"})
#: Events that are kept; older ones are dropped.
MAX_KEPT_EVENTS = 20_000
#: Characters of a query that are kept.
_MAX_QUERY_CHARS = 4_000
#: Characters of the answer of a call that failed.
_MAX_PROBLEM_CHARS = 400
#: Most bytes that one reading takes from a file.
_MAX_BYTES_PER_READING = 64_000_000


def shortened(text: str, max_chars: int) -> str:
    """The first characters of a text, with a mark that says how many there are, if it is longer."""
    return (
        text
        if len(text) <= max_chars
        else f"{text[:max_chars]} […cut: {len(text):,} characters in all]"
    )


class EventHistory:
    """The last events in JSON form, numbered from 0. Thread-safe.

    As a sink of a `Recorder` it takes events directly. With a file, `read_new` takes the lines that
    were added to the file.

    Args:
        path: file of events; None for a history without a file. It may not exist yet.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._rows: list[Row] = []
        self._dropped_count = 0
        self._damaged_count = 0
        self._file_position = 0
        self._incomplete_line = b""
        self._lock = Lock()
        self._cached_stats: tuple[int, EventStats] | None = None
        #: Conversation and tool of each call that was sent back to the model: what was wrong.
        self._mendable_problems: dict[tuple[str, str], str] = {}
        self._server_rows: dict[str, Row] = {}

    def __call__(self, event: Event) -> None:
        """Take an event of a recorder."""
        with self._lock:
            self._add([event.to_dict()])

    @property
    def next_number(self) -> int:
        """The number that the next event gets."""
        return self._dropped_count + len(self._rows)

    @property
    def damaged_count(self) -> int:
        """How many lines or events could not be read."""
        return self._damaged_count

    def events_from(self, number: int, count: int) -> list[tuple[int, Row]]:
        """Events with this number or a higher one, with their numbers, oldest first.

        Args:
            number: number of the first event.
            count: most events.
        """
        with self._lock:
            start = max(0, number - self._dropped_count)
            rows = list(islice(self._rows, start, start + count))
            return list(enumerate(rows, self._dropped_count + start))

    def stats(self) -> EventStats:
        """Figures of the kept events. Events that lack a field are left out and counted."""
        with self._lock:
            rows, end = list(self._rows), self.next_number
        if self._cached_stats is None or self._cached_stats[0] != end:
            self._cached_stats = end, EventStats(rows)
        return self._cached_stats[1]

    def sessions(self) -> dict[str, list[Row]]:
        """Conversation to its events. Starts and stops of servers belong to none."""
        with self._lock:
            rows = list(self._rows)
        sessions: dict[str, list[Row]] = {}
        for row in rows:
            if row["kind"] != "server":
                sessions.setdefault(str(row["session"]), []).append(row)
        return sessions

    def server_states(self) -> dict[str, dict[str, Any]]:
        """Server to its state, its problem and the time, as its last event has them."""
        with self._lock:
            rows = dict(self._server_rows)
        return {
            name: {
                "state": str(row.get("state")),
                "problems": [str(row["problem"])] if row.get("problem") else [],
                "at": row["at"],
            }
            for name, row in rows.items()
        }

    def read_new(self) -> None:
        """Take the lines that were added to the file since.

        Raises:
            EventError: the file cannot be read.
        """
        if self.path is None or not self.path.exists():
            return
        with self._lock:
            with open_file(self.path, None, error=EventError) as file:
                if file.seek(0, 2) < self._file_position:  # another file, or a file that was cut
                    self._file_position, self._incomplete_line = 0, b""
                file.seek(self._file_position)
                data = self._incomplete_line + file.read(_MAX_BYTES_PER_READING)
                self._file_position = file.tell()
            *lines, self._incomplete_line = data.split(b"\n")
            rows: list[Row] = []
            for line in lines:
                if line.strip():
                    row = parse_event(line.decode("utf-8", "backslashreplace"), str(self.path))
                    if isinstance(row, EventError):
                        self._damaged_count += 1
                    else:
                        rows.append(row)
            self._add(rows)

    def _add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the rows that `EventStats` can count; the caller has the lock."""
        for row in rows:
            try:
                EventStats([row])
                self._rows.append(self._with_repair(_without_long_content({"session": "", **row})))
                if row["kind"] == "server":
                    self._server_rows[str(row.get("server"))] = self._rows[-1]
            except (KeyError, TypeError, ValueError, AttributeError):
                self._damaged_count += 1
        if (excess := len(self._rows) - MAX_KEPT_EVENTS) > 0:
            del self._rows[:excess]
            self._dropped_count += excess

    def _with_repair(self, row: Row) -> Row:
        """The event; a call that passed after it was sent back says what was mended (`repaired`).

        The caller has the lock.
        """
        if row["kind"] != "call":
            return row
        call = str(row["session"]), str(row.get("tool"))
        if row["status"] in MENDABLE_STATUSES:
            self._mendable_problems[call] = str(row["status"])
            if len(self._mendable_problems) > MAX_KEPT_EVENTS:
                self._mendable_problems.pop(next(iter(self._mendable_problems)))
        elif row["status"] == "passed" and (problem := self._mendable_problems.pop(call, None)):
            row["repaired"] = problem
        return row


def _without_long_content(row: Row) -> Row:
    """The event with the query of its content, and the text of a failed call's answer.

    Results of calls may take megabytes.
    """
    content = row.pop("content", None)
    if not isinstance(content, Mapping):
        return row
    kept = {}
    if isinstance(query := content.get("query"), str):
        kept["query"] = shortened(query, _MAX_QUERY_CHARS)
    result = content.get("result")
    if row.get("outcome") == "tool_error" and isinstance(result, Mapping):
        parts = result.get("content")
        texts = [part.get("text") for part in parts or () if isinstance(part, Mapping)]
        problem = " ".join(text for text in texts if isinstance(text, str))
        kept["problem"] = shortened(problem, _MAX_PROBLEM_CHARS)
    if kept:
        row["content"] = kept
    return row
