"""Queries and the tools that were called for them, from recorded events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import EventError
from ..retrieval.usage import UsageEvent
from .event import CallEvent, Event, SearchEvent, TurnEvent


@dataclass(slots=True)
class RecordedUsage:
    """The usage that a file of events shows.

    Args:
        events: each query with the tools that were called for it with success.
        without_text: queries that were recorded as a hash only.
        without_call: queries after which no tool was called with success.
        problems: lines that are no events.

    Example:
        >>> from shortlist.session import usage_of_events
        >>> usage_of_events([]).events
        []
    """

    events: list[UsageEvent] = field(default_factory=list)
    without_text: int = 0
    without_call: int = 0
    problems: list[EventError] = field(default_factory=list)


@dataclass(slots=True)
class _Search:
    """A recorded query.

    Args:
        text: the query; None if it was recorded as a hash.
        found: ids of the tools found; empty for a message of a session.
        profile: profile of the client in the gateway, if it was recorded.
        called: id of each tool called for it with success, in order, to the fingerprint that its
            definition had; None where it was not recorded.
    """

    text: str | None
    found: frozenset[str]
    profile: str | None = None
    called: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class _RecordedSession:
    """What was recorded of one session so far.

    Args:
        searches: its queries, in order.
        fingerprints: tool id to the fingerprint at the newest call that passed the check.
    """

    searches: list[_Search] = field(default_factory=list)
    fingerprints: dict[str, str] = field(default_factory=dict)


def usage_of_events(events: Iterable[Event | EventError]) -> RecordedUsage:
    """The queries of sessions or of the gateway, with the tools called for them.

    In a session, these are the calls that succeeded before the user's next message. The gateway's
    calls belong to the client's newest search that found the tool, otherwise to its newest search.

    Args:
        events: the result of `read_events`.

    Example:
        >>> from shortlist import Engine, Tool
        >>> from shortlist.session import Recorder
        >>> from shortlist.session.event_usage import usage_of_events
        >>> events = []
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> session = engine.session(events=Recorder(events.append, content=True))
        >>> turn = session.turn("list the invoices")
        >>> verdict = session.check("billing/list_invoices", {})
        >>> turn = session.result(verdict.tool.id, "INV-7")
        >>> [event] = usage_of_events(events).events
        >>> event.query, event.relevant
        ('list the invoices', ('billing/list_invoices',))
    """
    usage = RecordedUsage()
    sessions: dict[str, _RecordedSession] = {}
    for event in events:
        if isinstance(event, EventError):
            usage.problems.append(event)
        else:
            _add_event(sessions.setdefault(event.session, _RecordedSession()), event)
    for search in (search for session in sessions.values() for search in session.searches):
        if search.text is None:
            usage.without_text += 1
        elif not search.called:
            usage.without_call += 1
        else:
            usage.events.append(
                UsageEvent(
                    search.text,
                    tuple(search.called),
                    search.profile,
                    {tool_id: known for tool_id, known in search.called.items() if known},
                )
            )
    return usage


def _add_event(session: _RecordedSession, event: Event) -> None:
    """Add one event to its session."""
    searches = session.searches
    match event:
        case TurnEvent(called=None):
            # A session's calls belong to the newest message, whatever was found for it.
            searches.append(_Search(event.query_text, frozenset()))
        case TurnEvent(called=str(tool_id), ok=True) if searches:
            searches[-1].called[tool_id] = session.fingerprints.get(tool_id)
        case SearchEvent():
            found = frozenset(tool.id for tool in event.found)
            searches.append(_Search(event.query_text, found, event.client))
        case CallEvent(tool=tool_id):
            if event.fingerprint:
                session.fingerprints[tool_id] = event.fingerprint
            if event.ok and searches:
                finding = [search for search in searches if tool_id in search.found]
                (finding or searches)[-1].called[tool_id] = session.fingerprints.get(tool_id)
