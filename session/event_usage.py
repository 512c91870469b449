"""Queries and the tools that served them, from recorded events: what `learn` takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import EventError
from ..retrieval.usage import UsageEvent

Row = Mapping[str, Any]


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
        called: ids of the tools called for it with success, in order.
    """

    text: str | None
    found: frozenset[str]
    called: dict[str, None] = field(default_factory=dict)


def usage_of_events(rows: Iterable[Row | EventError]) -> RecordedUsage:
    """The queries of sessions or of the gateway, with the tools called for them.

    In a session, these are the calls that succeeded before the user's next message. The gateway's
    calls belong to the client's newest search that found the tool, otherwise to its newest search.

    Args:
        rows: the result of `read_events`.

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
        >>> usage_of_events(event.to_dict() for event in events).events
        [UsageEvent(query='list the invoices', relevant=('billing/list_invoices',))]
    """
    usage = RecordedUsage()
    searches_by_session: dict[str, list[_Search]] = {}
    for row in rows:
        if isinstance(row, EventError):
            usage.problems.append(row)
            continue
        try:
            _add_row(searches_by_session.setdefault(str(row["session"]), []), row)
        except (LookupError, TypeError, AttributeError) as error:
            usage.problems.append(EventError(f"{row.get('turn_id')}: not an event: {error!r:.80}"))
    for search in _all_searches(searches_by_session):
        if search.text is None:
            usage.without_text += 1
        elif not search.called:
            usage.without_call += 1
        else:
            usage.events.append(UsageEvent(search.text, tuple(search.called)))
    return usage


def _all_searches(by_session: Mapping[str, list[_Search]]) -> Iterator[_Search]:
    for searches in by_session.values():
        yield from searches


def _add_row(searches: list[_Search], row: Row) -> None:
    """Add one event to the searches of its session."""
    content = row.get("content") or {}
    match row["kind"]:
        case "turn" if row["called"] is None:
            texts = content.get("queries") or [None]
            # A session's calls belong to the newest message, whatever was found for it.
            searches.append(_Search(texts[0], frozenset()))
        case "turn" if row["ok"] and searches:
            searches[-1].called[row["called"]] = None
        case "search":
            found = frozenset(hit["id"] for hit in row["found"])
            searches.append(_Search(content.get("query"), found))
        case "call" if row.get("ok") and searches:
            tool_id = row["tool"]
            finding = [search for search in searches if tool_id in search.found]
            (finding or searches)[-1].called[tool_id] = None
