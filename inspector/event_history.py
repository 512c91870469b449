"""The last events, from a file that may grow or straight from a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from ..catalog.text_file import open_file
from ..errors import EventError
from ..session.event import CallEvent, Event, SearchEvent, ServerEvent, TurnEvent
from ..session.event_stats import EventStats, event_time
from ..session.recorder import parse_event

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


class RepairedCall(CallEvent):
    """A call that passed after it was sent back to the model.

    Args:
        repaired: status of the call before.
    """

    repaired: str


class EventHistory:
    """The last events, numbered from 0. Thread-safe.

    As a sink of a `Recorder` it takes events directly. With a file, `read_new` takes the lines that
    were added to the file.

    Args:
        path: file of events; None for a history without a file. It may not exist yet.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._events: list[Event] = []
        self._dropped_count = 0
        self._damaged_count = 0
        self._file_position = 0
        self._incomplete_line = b""
        self._lock = Lock()
        self._cached_stats: tuple[int, EventStats] | None = None
        #: Conversation and tool of each call that was sent back to the model: what was wrong.
        self._mendable_problems: dict[tuple[str, str], str] = {}
        self._server_events: dict[str, ServerEvent] = {}

    def __call__(self, event: Event) -> None:
        """Take an event of a recorder."""
        with self._lock:
            self._add([event])

    @property
    def next_number(self) -> int:
        """The number that the next event gets."""
        return self._dropped_count + len(self._events)

    @property
    def damaged_count(self) -> int:
        """How many lines or events could not be read."""
        return self._damaged_count

    def events_from(self, number: int, count: int) -> list[tuple[int, Event]]:
        """Events with this number or a higher one, with their numbers, oldest first."""
        with self._lock:
            start = max(0, number - self._dropped_count)
            events = list(islice(self._events, start, start + count))
            return list(enumerate(events, self._dropped_count + start))

    def stats(self) -> EventStats:
        """Figures of the kept events."""
        with self._lock:
            events, end = list(self._events), self.next_number
        if self._cached_stats is None or self._cached_stats[0] != end:
            self._cached_stats = end, EventStats(events)
        return self._cached_stats[1]

    def sessions(self) -> dict[str, list[Event]]:
        """Conversation to its events. Starts and stops of servers belong to none."""
        with self._lock:
            events = list(self._events)
        sessions: dict[str, list[Event]] = {}
        for event in events:
            if not isinstance(event, ServerEvent):
                sessions.setdefault(event.session, []).append(event)
        return sessions

    def server_states(self) -> dict[str, dict[str, Any]]:
        """Server to its state, its problem and the time, as its last event has them."""
        with self._lock:
            events = dict(self._server_events)
        return {
            name: {
                "state": event.state,
                "problems": [event.problem] if event.problem else [],
                "at": event_time(event.at),
            }
            for name, event in events.items()
        }

    @property
    def has_new(self) -> bool:
        """Whether `read_new` has something to read: one look at the file's size."""
        try:
            return self.path is not None and self.path.stat().st_size != self._file_position
        except FileNotFoundError:
            return False
        except OSError:
            return True  # reading says what is wrong

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
            events: list[Event] = []
            for line in lines:
                if line.strip():
                    event = parse_event(line, str(self.path))
                    if isinstance(event, EventError):
                        self._damaged_count += 1
                    else:
                        events.append(event)
            self._add(events)

    def _add(self, events: Iterable[Event]) -> None:
        """Keep events without long texts; the caller has the lock."""
        for event in events:
            if isinstance(event, ServerEvent):
                self._server_events[event.server] = event
            if isinstance(event, CallEvent):
                event = self._with_repair(event)
            if getattr(event, "content", None) is not None:
                event = event.model_copy(update={"content": _short_content(event)})
            self._events.append(event)
        if (excess := len(self._events) - MAX_KEPT_EVENTS) > 0:
            del self._events[:excess]
            self._dropped_count += excess

    def _with_repair(self, call: CallEvent) -> CallEvent:
        """The call; if it passed after it was sent back, with what was mended.

        The caller has the lock.
        """
        key = call.session, call.tool
        if call.status in MENDABLE_STATUSES:
            self._mendable_problems[key] = call.status
            if len(self._mendable_problems) > MAX_KEPT_EVENTS:
                self._mendable_problems.pop(next(iter(self._mendable_problems)))
        elif call.status == "passed" and (problem := self._mendable_problems.pop(key, None)):
            return RepairedCall(**dict(call), repaired=problem)
        return call


def _short_content(event: Event) -> dict[str, Any]:
    """The query of a search, and the text of a failed call's answer.

    Results of calls may take megabytes.
    """
    match event:
        case SearchEvent(query_text=str(query)):
            return {"query": shortened(query, _MAX_QUERY_CHARS)}
        case TurnEvent(query_text=str(query)):
            return {"queries": [shortened(query, _MAX_QUERY_CHARS)]}
        case CallEvent(outcome="tool_error", content={"result": {"content": [*parts]}}):
            texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
            problem = " ".join(text for text in texts if isinstance(text, str))
            return {"problem": shortened(problem, _MAX_PROBLEM_CHARS)}
    return {}
