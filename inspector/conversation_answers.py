"""Answers from events: the timeline, conversations, searches without a call, and the overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..session.event import (
    CallEvent,
    CatalogEvent,
    DetailsEvent,
    Event,
    ListEvent,
    ScriptEvent,
    SearchEvent,
    ServerEvent,
    TurnEvent,
)
from ..session.event_stats import EventStats, event_time, percentile
from .event_history import MENDABLE_STATUSES, EventHistory, RepairedCall
from .subject import Subject

#: Events of one answer.
MAX_EVENTS_PER_ANSWER = 2_500
#: Tools that a line of the timeline names.
_MAX_NAMED_TOOLS = 3
#: Searches without a call, most frequent first.
_MAX_MISSED_QUERIES = 100
_MAX_HOURS = 48
#: Searches of a conversation that its picture shows, the last ones.
_MAX_STEPS = 40
#: Turns of a conversation whose tokens are shown, the last ones.
_MAX_TURNS = 60


def timeline_answer(history: EventHistory, start: int) -> dict[str, Any]:
    """Lines of the timeline."""
    events = history.events_from(start, MAX_EVENTS_PER_ANSWER)
    return {
        "end": history.next_number,
        "next": events[-1][0] + 1 if events else max(start, history.next_number),
        "damaged": history.damaged_count,
        "file": None if history.path is None else str(history.path),
        "lines": [_timeline_line(number, event) for number, event in events],
    }


def conversations_answer(history: EventHistory) -> dict[str, Any]:
    """All conversations, the newest first, and the searches that led to no call."""
    sessions = history.sessions()
    summaries = [_summary(session, events) for session, events in sessions.items()]
    return {
        "conversations": sorted(summaries, key=lambda summary: summary["last"], reverse=True),
        "missed": _missed_queries(history.stats().missed_searches),
    }


def _summary(session: str, events: list[Event]) -> dict[str, Any]:
    stats = EventStats(events)
    sent, turns, definitions = 0, [], 0
    for event in events:
        if isinstance(event, ListEvent):
            definitions = event.permitted_tokens
        if (tokens := getattr(event, "tokens", None)) is not None:
            sent += tokens
            turns.append({"at": event_time(event.at), "tokens": sent, "definitions": definitions})
    return {
        "session": session,
        "client": next(filter(None, (getattr(event, "client", None) for event in events)), ""),
        "first": event_time(events[0].at),
        "last": event_time(events[-1].at),
        "events": len(events),
        "searches": stats.search_outcomes.total(),
        "misses": stats.missed_count,
        "calls": stats.call_outcomes.total(),
        "failed": sum(stats.call_outcomes[outcome] for outcome in ("tool_error", "server_error")),
        "refused": sum(
            stats.call_outcomes[outcome] for outcome in ("denied", "invalid", "unknown")
        ),
        "defined": stats.definition_tokens,
        "sent": sent,
        "turns": turns[-_MAX_TURNS:],
    }


def steps_answer(history: EventHistory, session: str) -> list[dict[str, Any]]:
    """The last searches of a conversation: what each offered, and the calls that followed.

    A call belongs to the last search that offered its tool, otherwise to the last search.
    """
    steps: list[dict[str, Any]] = []
    step_offering: dict[str, dict[str, Any]] = {}
    for event in history.sessions().get(session, ()):
        match event:
            case SearchEvent() | TurnEvent(called=None):
                ids = list(_offered_ids(event))
                steps.append({"query": _query_in_one_line(event), "offered": ids, "calls": []})
                step_offering |= dict.fromkeys(ids, steps[-1])
            case CallEvent():
                if not steps:
                    steps.append({"query": None, "offered": [], "calls": []})
                title, detail, tone = _call_title_detail_and_tone(event)
                call = {"tool": event.tool, "tone": tone}
                step = step_offering.get(event.tool or "", steps[-1])
                step["calls"].append(call | {"text": f"{title.partition(' ')[0]}: {detail}"})
    return steps[-_MAX_STEPS:]


def _missed_queries(searches: Iterable[SearchEvent | TurnEvent]) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter()
    last: dict[str, SearchEvent | TurnEvent] = {}
    for search in searches:
        counts[search.query] += 1
        last[search.query] = search
    return [
        {
            "query": last[query].query_text,
            "hash": query,
            "count": count,
            "at": event_time(last[query].at),
            "found": _offered_ids(last[query])[:_MAX_NAMED_TOOLS],
            "outcome": _search_outcome(last[query]),
        }
        for query, count in counts.most_common(_MAX_MISSED_QUERIES)
    ]


def _query_in_one_line(search: SearchEvent | TurnEvent) -> str | None:
    """The query; several of one search are separated by semicolons."""
    return None if search.query_text is None else search.query_text.replace("\n", "; ")


def _offered_ids(search: SearchEvent | TurnEvent) -> Sequence[str]:
    if isinstance(search, SearchEvent):
        return [tool.id for tool in search.found]
    return search.offered


def _search_outcome(search: SearchEvent | TurnEvent) -> str:
    if isinstance(search, SearchEvent):
        return search.outcome
    return "abstained" if search.abstained else "found"


def _timeline_line(number: int, event: Event) -> dict[str, Any]:
    title, detail, tone = _title_detail_and_tone(event)
    is_outcome = isinstance(event, CallEvent) and event.outcome is not None
    return {
        "number": number,
        "at": event_time(event.at),
        "session": event.session,
        "kind": event.kind,
        "title": title,
        "detail": detail,
        "tone": tone,
        "ms": getattr(event, "run_ms" if is_outcome else "ms", None),
        "tokens": getattr(event, "tokens", None),
    }


def _title_detail_and_tone(event: Event) -> tuple[str, str, str]:
    """What happened, the details, and whether it is good, bad or neither."""
    match event:
        case SearchEvent() | TurnEvent(called=None):
            offered, outcome = _offered_ids(event), _search_outcome(event)
            query = _query_in_one_line(event)
            title = "searched" if query is None else f"searched “{query}”"
            if not offered or outcome == "abstained":
                return title, event.reason or outcome, "warn"
            more = (
                f" and {len(offered) - _MAX_NAMED_TOOLS} more"
                if len(offered) > _MAX_NAMED_TOOLS
                else ""
            )
            return title, f"offered {', '.join(offered[:_MAX_NAMED_TOOLS])}{more}", "plain"
        case CallEvent():
            return _call_title_detail_and_tone(event)
        case ServerEvent(problem=problem):
            tone = "bad" if problem else "plain"
            return f"server {event.server}: {event.state}", problem or "", tone
        case ListEvent():
            return "got its list of tools", f"{event.shown} of {event.permitted} tools", "plain"
        case DetailsEvent():
            return "read definitions", ", ".join(event.found), "plain"
        case ScriptEvent():
            tone = "good" if event.outcome == "ok" else "bad"
            calls = "1 call" if event.calls == 1 else f"{event.calls} calls"
            return "ran a script", f"{event.outcome}, {calls}", tone
        case CatalogEvent():
            return "catalog version", f"{len(event.tools)} tools", "plain"
    return event.kind, "", "plain"


def _call_title_detail_and_tone(call: CallEvent) -> tuple[str, str, str]:
    """What became of a call, and why."""
    outcome = call.outcome or call.status
    tool = call.tool or "an unknown tool"
    if outcome in ("ok", "passed"):
        if isinstance(call, RepairedCall):
            return f"repaired {tool}", f"{outcome}, after a call that was {call.repaired}", "good"
        return f"called {tool}", outcome, "good"
    verb = "failed"
    if outcome in MENDABLE_STATUSES:
        verb = "sent back"
    elif outcome in ("denied", "unknown"):
        verb = "refused"
    why = _call_problem(call)
    detail = f"{outcome.replace('_', ' ')}: {why}" if why else outcome.replace("_", " ")
    return f"{verb} {tool}", detail, "warn" if verb == "sent back" else "bad"


def _call_problem(call: CallEvent) -> str:
    """Why a call did not run, or what its server answered; empty where the event does not say."""
    if call.status == "promoted":
        return "the model had not seen its definition, which it was given"
    if call.denied is not None:
        return call.denied.reason
    if call.content and "problem" in call.content:
        return str(call.content["problem"])
    problems = [f"{problem.path or '/'} expects {problem.expected}" for problem in call.problems]
    if call.nearest:
        problems.append(f"similar names: {', '.join(call.nearest[:_MAX_NAMED_TOOLS])}")
    return "; ".join(problems)


def overview_answer(subject: Subject, servers: Mapping[str, Any]) -> dict[str, Any]:
    """Servers, calls and searches an hour, latencies, and tokens saved.

    Args:
        subject: what the page shows.
        servers: the answer of `CatalogAnswers.servers`.
    """
    stats = subject.history.stats()
    progress = subject.engine.build_progress
    hours = sorted(stats.counts_by_hour)[-_MAX_HOURS:]
    return {
        "name": subject.name,
        "tools": servers["tools"],
        "tokens": servers["tokens"],
        **{name: servers[name] for name in ("servers", "states_from", "note", "config_problem")},
        "quarantined": len(subject.engine.quarantined),
        "encoded": progress.fraction,
        "stats": stats.to_dict(),
        "search_p95": percentile(stats.search_ms, 95),
        "hours": [
            {
                "hour": hour,
                **{kind: stats.counts_by_hour[hour][kind] for kind in ("searches", "calls")},
            }
            for hour in hours
        ],
        "has_events": subject.history.next_number > 0,
        "events_file": None if subject.history.path is None else str(subject.history.path),
    }
