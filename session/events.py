"""Passes events to sinks: a callback, a file, a tracing backend."""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..errors import RequestError
from .event import CallEvent, Event, PromptEvent, TurnEvent
from .event_log import JsonLines
from .event_parts import Place

if TYPE_CHECKING:
    from ..gating.verdict import Verdict
    from ..loaders import PromptTurn
    from .turn import Turn

_LOG = logging.getLogger(__name__)
_DIGEST = 16

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
        >>> session = engine.session(events=Recorder(events.append), format="openai")
        >>> turn = session.turn("list the invoices")
        >>> [event.kind for event in events]
        ['turn', 'prompt']
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
            text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST, key=self._key
        ).hexdigest()

    def turn(self, session: str, turn: Turn) -> None:
        """Record the tools that a turn offers.

        Args:
            session: id of the session.
            turn: the result of the turn.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.session import Recorder
            >>> events = []
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> Recorder(events.append).turn("42", engine.session().turn("list the invoices"))
            >>> events[0].place.turn_id
            '42/1'
        """
        query = self.hashed(turn.queries[0])
        place = Place.now(session, turn.number)
        self(TurnEvent.of(turn, place, query=query, content=self._content))

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
        self(CallEvent.of(verdict, Place.now(session, turn), ms=ms, content=self._content))

    def prompt(self, session: str, turn: int, prompt: PromptTurn) -> None:
        """Record how the prompt shows a turn's tools.

        Args:
            session: id of the session.
            turn: number of the turn.
            prompt: the rendered prompt, `Turn.shown`.

        Example:
            >>> from shortlist import Engine, Tool
            >>> from shortlist.session import Recorder
            >>> events = []
            >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
            >>> turn = engine.session(format="openai").turn("list the invoices")
            >>> Recorder(events.append).prompt("42", turn.number, turn.shown)
            >>> events[0].kind
            'prompt'
        """
        self(PromptEvent.of(prompt, Place.now(session, turn)))

    def __call__(self, event: Event) -> None:
        """Pass an event to every sink."""
        for at, sink in enumerate(self._sinks):
            try:
                sink(event)
            except Exception:  # noqa: BLE001
                # A turn is worth more than its record, whatever the sink does.
                with self._lock:
                    self._failures[at] += 1
                    first = self._failures[at] == 1
                if first:
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
