"""Passes events to sinks: a callback, a file of JSON lines, a tracing backend."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from ..catalog.text_file import OWNER_ONLY_MODE, open_file
from ..errors import EventError, RequestError
from ..untrusted.json_bytes import repaired_json
from .event import (
    EVENT_READER,
    MAX_CANDIDATES,
    CallEvent,
    DeniedTool,
    DeniedTools,
    Event,
    FoundTool,
    RecordedEvent,
    TurnEvent,
    quotes_of,
)

if TYPE_CHECKING:
    from ..gating.verdict import Verdict
    from .turn import Turn


_LOG = logging.getLogger(__name__)
_DIGEST_BYTES = 16

EventSink = Callable[[Event], None]
"""Receives an event, in the thread of the turn and before its answer. A slow sink slows turns."""


class Recorder:
    """Records the events of any number of sessions and passes them to sinks.

    An exception in a sink does not stop the turn or the other sinks. Failures are counted, and the
    first of each sink is logged with its traceback.

    Args:
        sinks: called in this order.
        key: secret key for the hash of queries, at most 64 bytes. Without one, a reader of the
            events can guess short queries by hashing them.
        content: whether events have queries, descriptions and wrong arguments.

    Raises:
        RequestError: there is no sink, a sink is not callable, or the key has a wrong type or is
            too long.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.session import Recorder
        >>> events = []
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session("openai", events=Recorder(events.append))
        >>> turn = session.turn("list the invoices")
        >>> [event.kind for event in events]
        ['turn']
    """

    def __init__(self, *sinks: EventSink, key: bytes = b"", content: bool = False) -> None:
        if not sinks or not all(map(callable, sinks)):
            raise RequestError("events: one or more sinks, each of which takes an event")
        if not isinstance(key, bytes) or len(key) > blake2b.MAX_KEY_SIZE:
            raise RequestError(f"events: a key is of at most {blake2b.MAX_KEY_SIZE} bytes")
        self._sinks = sinks
        self._key = key
        self._content = content
        self._failures = [0] * len(sinks)
        self._lock = Lock()

    @property
    def failures(self) -> tuple[int, ...]:
        """Number of events that each sink failed to take, in the order of the sinks."""
        with self._lock:
            return tuple(self._failures)

    def hashed(self, text: str) -> str:
        """The hash of a query in events: BLAKE2b with 16 bytes, hexadecimal.

        Example:
            >>> from shortlist.session import Recorder
            >>> Recorder(print, key=b"secret").hashed("list the invoices")
            'a5fa4eefad272d4f6def0414f3d71127'
        """
        return blake2b(
            text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES, key=self._key
        ).hexdigest()

    def turn(self, session: str, number: int, turn: Turn, **fields: Any) -> None:
        """Record the tools that a turn offers, and what it shows the model of them.

        Args:
            session: id of the session.
            number: number of the turn in the session.
            turn: the result of the turn.
            fields: what the event has beside it, such as `called` and `ok`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.session import Recorder
            >>> events = []
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> turn = engine.session().turn("list the invoices")
            >>> Recorder(events.append).turn("42", 1, turn)
            >>> events[0].turn_id
            '42/1'
        """
        results = turn.results
        first_selection = results.selections[0] if results.selections else None
        candidates = results.ranked[:MAX_CANDIDATES]
        refusals = first_selection.denied.nearest() if first_selection else ()
        content = None
        if self._content:
            content = {
                "queries": list(results.queries),
                "descriptions": {hit.id: hit.tool.description for hit in candidates},
                **quotes_of(refusals),
            }
        shown: dict[str, Any] = {}
        if turn.shown is not None:
            shown = {
                "head_tokens": turn.shown.head_tokens,
                "message_tokens": turn.shown.message_tokens,
                "head_is_new": turn.shown.head_is_new,
                "levels": {tool_id: level.label for tool_id, level in turn.shown.levels.items()},
            }
        stages: dict[str, float] = fields.pop("timings", {})
        for selection in results.selections:
            for stage, ms in selection.timings.items():
                name = f"search.{stage}"
                stages[name] = stages.get(name, 0.0) + ms
        event = TurnEvent(
            session=session,
            turn=number,
            query=self.hashed(results.queries[0]),
            searches=len(results.selections),
            intents=len(results.intents) or 1,
            context=results.context_weight,
            tier=first_selection.tier if first_selection else None,
            tier_asked=first_selection.tier_asked if first_selection else None,
            tier_reason=first_selection.tier_reason if first_selection else None,
            catalog=first_selection.catalog if first_selection else None,
            candidates=tuple(map(FoundTool.of, candidates)),
            offered=turn.ids,
            denied=DeniedTools(
                count=len(first_selection.denied) if first_selection else 0,
                nearest=tuple(map(DeniedTool.of, refusals)),
            ),
            active=turn.active,
            left=tuple(
                DeniedTool(tool=departure.tool_id, kind=departure.kind, reason=departure.reason)
                for departure in turn.left
            ),
            changed=turn.changed,
            abstained=turn.abstained,
            reason=turn.reason,
            dropped=len(results.merged_selection.dropped),
            timings=stages,
            content=content,
            **shown,
            **fields,
        )
        self(event)

    def call(self, session: str, turn: int, verdict: Verdict, *, ms: float) -> None:
        """Record the check of a call.

        Args:
            session: id of the session.
            turn: number of the last turn.
            verdict: the result of the check.
            ms: milliseconds the check took.

        Example:
            >>> from shortlist.session import Recorder, Verdict
            >>> events = []
            >>> Recorder(events.append).call("42", 1, Verdict("unknown", "list_invoice"), ms=0.1)
            >>> events[0].kind, events[0].status
            ('call', 'unknown')
        """
        self(CallEvent.of(verdict, ms=ms, content=self._content, session=session, turn=turn))

    def __call__(self, event: Event) -> None:
        """Pass an event to every sink."""
        for index, sink in enumerate(self._sinks):
            try:
                sink(event)
            except Exception:  # noqa: BLE001
                # A turn is worth more than its record, whatever the sink does.
                with self._lock:
                    self._failures[index] += 1
                    is_first_failure = self._failures[index] == 1
                if is_first_failure:
                    _LOG.warning(
                        "an event sink failed; its further failures are not logged: %r",
                        sink,
                        exc_info=True,
                    )


def recorder_for(events: Any) -> Recorder | None:
    """The recorder for the setting `events`: a recorder, a sink, or the path of a JSON lines file.

    Raises:
        EventError: the file cannot be opened.
    """
    if events is None or isinstance(events, Recorder):
        return events
    return Recorder(events if callable(events) else JsonLines(events))


class JsonLines:
    """A sink that appends each event to a file as one line of JSON.

    Each line is one write to a file opened for appending, so lines of several threads, or of
    processes on a local disk, are not mixed.

    Args:
        path: the file. If it does not exist, one is created that only its owner may read. Its
            folder must exist.
        max_bytes: size at which the file becomes `NAME.old`, in place of the one before, and a new
            one begins; None for a file that is never cut. For one writer only.

    Raises:
        EventError: the file cannot be opened.

    Example:
        >>> import os, tempfile
        >>> from shortlist.session import JsonLines, Recorder, Verdict, read_events
        >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
        >>> with JsonLines(path) as log:
        ...     Recorder(log).call("42", 1, Verdict("unknown", "list_invoice"), ms=0.1)
        >>> [event.kind for event in read_events(path)]
        ['call']
    """

    def __init__(self, path: str | Path, *, max_bytes: int | None = None) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._lock = Lock()
        try:
            self._file = self._opened()
            self._end_last_line()
        except (OSError, ValueError) as error:
            raise EventError(f"{self.path}: cannot be opened for events: {error}") from error
        self._open = True

    def __call__(self, event: Event) -> None:
        """Append an event.

        Raises:
            EventError: the log is closed, or the file cannot be written.
        """
        data = f"{event.model_dump_json(exclude_none=True)}\n".encode()
        with self._lock:
            if not self._open:
                raise EventError(f"{self.path}: the log is closed")
            size = os.fstat(self._file).st_size
            if self._max_bytes is not None and size and size + len(data) > self._max_bytes:
                self._begin_new_file()
            written_bytes = os.write(self._file, data)
        if written_bytes != len(data):
            raise EventError(
                f"{self.path}: {written_bytes} of {len(data)} bytes of an event written"
            )

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

    def _opened(self) -> int:
        return os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_RDWR, OWNER_ONLY_MODE)

    def _begin_new_file(self) -> None:
        old_path = self.path.with_name(f"{self.path.name}.old")
        try:
            self.path.replace(old_path)
            new_file = self._opened()
        except OSError as error:
            raise EventError(f"{self.path}: a new file cannot be begun: {error}") from error
        os.close(self._file)
        self._file = new_file
        _LOG.warning("%s was full: its events are in %s now", self.path, old_path)

    def _end_last_line(self) -> None:
        """End a line that a crash cut off, so that the next event starts on a new line."""
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_events(path: str | Path) -> Iterator[RecordedEvent | EventError]:
    """The events of a file, in the order they were written.

    Args:
        path: the file.

    Yields:
        An event; or, for a line that is not an event (as after a crash), an error with the line
        number.

    Raises:
        EventError: the file cannot be read.

    Example:
        >>> import os, tempfile
        >>> from shortlist.session import JsonLines, Recorder, Verdict, read_events
        >>> path = os.path.join(tempfile.mkdtemp(), "events.jsonl")
        >>> with JsonLines(path) as log:
        ...     Recorder(log).call("42", 1, Verdict("unknown", "list_invoice"), ms=0.1)
        >>> [event.tool for event in read_events(path)]
        ['list_invoice']
    """
    try:
        with open_file(path, None, error=EventError) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield parse_event(line, f"{path}:{number}")
    except OSError as error:
        raise EventError(f"{path}: cannot be read as events: {error}") from error


def parse_event(line: bytes, where: str) -> RecordedEvent | EventError:
    """The event of a line; an error that begins with `where` if it is none."""
    try:
        return EVENT_READER.validate_json(repaired_json(line))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        return EventError(f"{where}: not an event: {place}: {problem['msg']}")
