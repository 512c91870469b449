"""Answers from events: the timeline, conversations, searches without a call, and the overview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..session.event_stats import EventStats, percentile
from .event_history import MENDABLE_STATUSES, EventHistory, Row
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
    """Lines of the timeline.

    Args:
        history: the events.
        start: number of the first event.
    """
    rows = history.events_from(start, MAX_EVENTS_PER_ANSWER)
    return {
        "end": history.next_number,
        "next": rows[-1][0] + 1 if rows else max(start, history.next_number),
        "damaged": history.damaged_count,
        "file": None if history.path is None else str(history.path),
        "lines": [_timeline_line(number, row) for number, row in rows],
    }


def conversations_answer(history: EventHistory) -> dict[str, Any]:
    """All conversations, the newest first, and the searches that led to no call."""
    sessions = history.sessions()
    summaries = [_summary(session, rows) for session, rows in sessions.items()]
    return {
        "conversations": sorted(summaries, key=lambda summary: summary["last"], reverse=True),
        "missed": _missed_queries(history.stats().missed_searches),
    }


def _summary(session: str, rows: list[Row]) -> dict[str, Any]:
    stats = EventStats(rows)
    sent, turns, definitions = 0, [], 0
    for row in rows:
        if row["kind"] == "list":
            definitions = int(row["permitted_tokens"])
        if isinstance(row.get("tokens"), int):
            sent += row["tokens"]
            turns.append({"at": row["at"], "tokens": sent, "definitions": definitions})
    return {
        "session": session,
        "client": next((str(row["client"]) for row in rows if "client" in row), ""),
        "first": stats.first_time,
        "last": stats.last_time,
        "events": len(rows),
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

    Args:
        history: the events.
        session: the conversation.
    """
    steps: list[dict[str, Any]] = []
    for row in history.sessions().get(session, ()):
        if row["kind"] == "search" or (row["kind"] == "turn" and row.get("called") is None):
            steps.append({"query": _query_text(row), "offered": _offered_ids(row), "calls": []})
        elif row["kind"] == "call":
            if not steps:
                steps.append({"query": None, "offered": [], "calls": []})
            title, detail, tone = _call_title_detail_and_tone(row)
            call = {"tool": str(row.get("tool") or ""), "tone": tone}
            steps[-1]["calls"].append(call | {"text": f"{title.partition(' ')[0]}: {detail}"})
    return steps[-_MAX_STEPS:]


def _missed_queries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    counts: Counter[str] = Counter()
    last: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        query = str(row.get("query", ""))
        counts[query] += 1
        last[query] = row
    return [
        {
            "query": _query_text(last[query]),
            "hash": query,
            "count": count,
            "at": last[query]["at"],
            "found": _offered_ids(last[query])[:_MAX_NAMED_TOOLS],
            "outcome": last[query].get("outcome", "found"),
        }
        for query, count in counts.most_common(_MAX_MISSED_QUERIES)
    ]


def _query_text(row: Mapping[str, Any]) -> str | None:
    """The query, where events have content."""
    content = row.get("content")
    query = content.get("query") if isinstance(content, Mapping) else None
    return query if isinstance(query, str) else None


def _offered_ids(row: Mapping[str, Any]) -> list[str]:
    if row["kind"] == "search":
        return [str(hit["id"]) for hit in row["found"]]
    return [str(tool_id) for tool_id in row.get("offered", ())]


def _timeline_line(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(row["kind"])
    title, detail, tone = _title_detail_and_tone(kind, row)
    return {
        "number": number,
        "at": row["at"],
        "session": row.get("session", ""),
        "kind": kind,
        "title": title,
        "detail": detail,
        "tone": tone,
        "ms": row.get("run_ms", row.get("ms")),
        "tokens": row.get("tokens"),
    }


def _title_detail_and_tone(kind: str, row: Mapping[str, Any]) -> tuple[str, str, str]:
    """What happened, the details, and whether it is good, bad or neither."""
    if kind == "search" or (kind == "turn" and row.get("called") is None):
        offered, outcome = _offered_ids(row), str(row.get("outcome", "found"))
        if kind == "turn" and row.get("abstained"):
            outcome = "abstained"
        query = _query_text(row)
        title = "searched" if query is None else f"searched “{query}”"
        if not offered or outcome == "abstained":
            return title, str(row.get("reason") or outcome), "warn"
        more = (
            f" and {len(offered) - _MAX_NAMED_TOOLS} more"
            if len(offered) > _MAX_NAMED_TOOLS
            else ""
        )
        return title, f"offered {', '.join(offered[:_MAX_NAMED_TOOLS])}{more}", "plain"
    if kind == "call":
        return _call_title_detail_and_tone(row)
    if kind == "server":
        problem = row.get("problem")
        tone = "bad" if problem else "plain"
        return f"server {row.get('server')}: {row.get('state')}", str(problem or ""), tone
    if kind == "list":
        return (
            "got its list of tools",
            f"{row.get('shown')} of {row.get('permitted')} tools",
            "plain",
        )
    if kind == "details":
        return "read definitions", ", ".join(map(str, row.get("found", ()))), "plain"
    if kind == "catalog":
        return "catalog version", f"{len(row.get('tools', ()))} tools", "plain"
    return kind, "", "plain"


def _call_title_detail_and_tone(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """What became of a call, and why."""
    outcome = str(row.get("outcome", row["status"]))
    tool = str(row.get("tool") or "an unknown tool")
    if outcome in ("ok", "passed"):
        problem = row.get("repaired")
        if problem is None:
            return f"called {tool}", outcome, "good"
        return f"repaired {tool}", f"{outcome}, after a call that was {problem}", "good"
    verb = "failed"
    if outcome in MENDABLE_STATUSES:
        verb = "sent back"
    elif outcome in ("denied", "unknown"):
        verb = "refused"
    why = _call_problem(row)
    detail = f"{outcome.replace('_', ' ')}: {why}" if why else outcome.replace("_", " ")
    return f"{verb} {tool}", detail, "warn" if verb == "sent back" else "bad"


def _call_problem(row: Mapping[str, Any]) -> str:
    """Why a call did not run, or what its server answered; empty where the event does not say."""
    if row["status"] == "promoted":
        return "the model had not seen its definition, which it was given"
    denied, content = row.get("denied"), row.get("content")
    if isinstance(denied, Mapping):
        return str(denied.get("reason", ""))
    if isinstance(content, Mapping) and "problem" in content:
        return str(content["problem"])
    problems = [
        f"{problem.get('path') or '/'} expects {problem.get('expected')}"
        for problem in row.get("problems") or ()
        if isinstance(problem, Mapping)
    ]
    nearest = list(map(str, row.get("nearest") or ()))
    if nearest:
        problems.append(f"similar names: {', '.join(nearest[:_MAX_NAMED_TOOLS])}")
    return "; ".join(problems) or str(row.get("reason") or "")


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
