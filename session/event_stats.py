"""Figures from a file of events: searches, misses, calls, scripts, tokens, tools, servers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from .event import (
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


@dataclass(slots=True)
class ServerStats:
    """Figures of one server.

    Args:
        run_ms: milliseconds of each call that reached it.
        failed_calls: calls that it did not answer or refused.
        start_ms: milliseconds of each start.
        failures: how often it did not start, or ended without being stopped.
    """

    run_ms: list[float] = field(default_factory=list)
    failed_calls: int = 0
    start_ms: list[float] = field(default_factory=list)
    failures: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "calls": len(self.run_ms),
            "failed_calls": self.failed_calls,
            "p50_ms": percentile(self.run_ms, 50),
            "p95_ms": percentile(self.run_ms, 95),
            "starts": len(self.start_ms),
            "start_p50_ms": percentile(self.start_ms, 50),
            "failures": self.failures,
        }


@dataclass(frozen=True, slots=True)
class OpenSearch:
    """A search that offered tools, none of which was called yet.

    Args:
        event: the event.
        tool_ids: ids of the tools that it offered.
    """

    event: SearchEvent | TurnEvent
    tool_ids: frozenset[str]


class EventStats:
    """Counts events. Takes those of the gateway, and those of sessions of the library.

    A search is a miss if it offered no tool, or if no tool that it offered was called afterwards
    in the same conversation.

    Args:
        events: events in the order they were written.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        #: Times of the first and the last event; None without events.
        self.first_time: datetime | None = None
        self.last_time: datetime | None = None
        #: Outcome of a search, such as `found` or `abstained`, to the number of searches.
        self.search_outcomes: Counter[str] = Counter()
        #: Milliseconds of each search.
        self.search_ms: list[float] = []
        #: Outcome or check status of a call to the number of calls.
        self.call_outcomes: Counter[str] = Counter()
        #: Outcome of a script, such as `ok`, to the number of scripts.
        self.script_outcomes: Counter[str] = Counter()
        self.servers: defaultdict[str, ServerStats] = defaultdict(ServerStats)
        #: Tokens of the definitions that clients would have read.
        self.definition_tokens = 0
        #: Tokens that they were given instead, by what for: list, search, details.
        self.sent_tokens: Counter[str] = Counter()
        #: Ids of the tools of the newest catalog.
        self.tool_ids: frozenset[str] = frozenset()
        #: Conversation to its searches of which no tool was called yet.
        self.open_searches: defaultdict[str, list[OpenSearch]] = defaultdict(list)
        #: Hour, such as `2026-11-22T20`, to its number of `searches` and `calls`.
        self.counts_by_hour: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._searches_without_offer: list[SearchEvent | TurnEvent] = []
        #: Profile of the gateway to the ids of the tools that exist for it.
        self.profile_tools: dict[str, frozenset[str]] = {}
        #: Profile to the ids of the tools found or called; sessions of the library have none.
        self._tools_seen: defaultdict[str | None, set[str]] = defaultdict(set)
        for event in events:
            self._count_event(event)

    @property
    def not_called_count(self) -> int:
        """Searches that offered tools of which none was called afterwards."""
        return sum(map(len, self.open_searches.values()))

    @property
    def missed_count(self) -> int:
        """Searches that offered nothing, or nothing that was called afterwards."""
        return self.search_outcomes.total() - self.search_outcomes["found"] + self.not_called_count

    @property
    def missed_searches(self) -> list[SearchEvent | TurnEvent]:
        """The events of these searches, in the order of their times."""
        open_searches = (search for waiting in self.open_searches.values() for search in waiting)
        events = [*self._searches_without_offer, *(search.event for search in open_searches)]
        return sorted(events, key=lambda event: event.at)

    @property
    def saved_tokens(self) -> int:
        """Tokens that clients did not have to read."""
        return self.definition_tokens - self.sent_tokens.total()

    @property
    def never_found(self) -> list[str]:
        """Ids of the present tools that no search found and no client called."""
        return sorted(self.tool_ids.difference(*self._tools_seen.values()))

    @property
    def never_found_by_profile(self) -> dict[str, list[str]]:
        """Profile to the ids of its tools that none of its searches found and it never called."""
        return {
            profile: sorted(tools & self.tool_ids - self._tools_seen[profile])
            for profile, tools in sorted(self.profile_tools.items())
        }

    def slowest(self) -> list[tuple[str, ServerStats]]:
        """Servers, the one whose calls take longest first."""
        return sorted(
            self.servers.items(),
            key=lambda item: (-(percentile(item[1].run_ms, 95) or 0.0), item[0]),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "from": self.first_time and event_time(self.first_time),
            "to": self.last_time and event_time(self.last_time),
            "conversations": len(self.open_searches),
            "tokens": {
                "definitions": self.definition_tokens,
                **{
                    f"sent_{kind}": self.sent_tokens[kind] for kind in ("list", "search", "details")
                },
                "saved": self.saved_tokens,
            },
            "searches": {
                "total": self.search_outcomes.total(),
                **dict(self.search_outcomes),
                "misses": self.missed_count,
                "not_called_afterwards": self.not_called_count,
                "p50_ms": percentile(self.search_ms, 50),
                "p95_ms": percentile(self.search_ms, 95),
            },
            "calls": {"total": self.call_outcomes.total(), **dict(self.call_outcomes)},
            "scripts": {"total": self.script_outcomes.total(), **dict(self.script_outcomes)},
            "servers": {name: stats.to_dict() for name, stats in self.slowest()},
            "tools": len(self.tool_ids),
            "never_found": self.never_found,
            "profiles": {
                profile: {
                    "tools": len(self.profile_tools[profile] & self.tool_ids),
                    "never_found": ids,
                }
                for profile, ids in self.never_found_by_profile.items()
            },
        }

    @property
    def days(self) -> float:
        """Days from the first event to the last one."""
        if self.first_time is None or self.last_time is None:
            return 0.0
        return (self.last_time - self.first_time) / timedelta(days=1)

    def _count_event(self, event: Event) -> None:
        self.first_time = self.first_time or event.at
        self.last_time = event.at
        match event:
            case SearchEvent():
                ids = [tool.id for tool in event.found]
                self._count_search(event, event.outcome, ids, event.client)
                self.search_ms.append(event.ms)
                self.sent_tokens["search"] += event.tokens
            case TurnEvent(called=None):
                outcome = "abstained" if event.abstained else "found"
                self._count_search(event, outcome, event.offered, None)
                self.search_ms.append(event.timings.get("search", 0.0))
            case DetailsEvent():
                self.sent_tokens["details"] += event.tokens
            case ScriptEvent():
                self.script_outcomes[event.outcome] += 1
            case ListEvent():
                self.open_searches[event.session]
                self.definition_tokens += event.permitted_tokens
                self.sent_tokens["list"] += event.tokens
            case CatalogEvent():
                self.tool_ids = frozenset(event.tools)
                if event.client is not None:
                    own_tools = event.profile_tools
                    self.profile_tools[event.client] = (
                        self.tool_ids if own_tools is None else frozenset(own_tools)
                    )
            case CallEvent():
                self._count_call(event)
            case ServerEvent():
                server = self.servers[event.server]
                if event.problem is not None:
                    server.failures += 1
                elif event.ms is not None:
                    server.start_ms.append(event.ms)

    def _count_search(
        self,
        event: SearchEvent | TurnEvent,
        outcome: str,
        tool_ids: Iterable[str],
        client: str | None,
    ) -> None:
        ids = frozenset(tool_ids)
        self.search_outcomes[outcome] += 1
        self._count_in_hour(event, "searches")
        self._tools_seen[client] |= ids
        waiting = self.open_searches[event.session]
        if outcome == "found":
            waiting.append(OpenSearch(event, ids))
        else:
            self._searches_without_offer.append(event)

    def _count_call(self, call: CallEvent) -> None:
        outcome = call.outcome or call.status
        self.call_outcomes[outcome] += 1
        self._count_in_hour(call, "calls")
        waiting = self.open_searches[call.session]
        if call.status != "passed":
            return
        self._tools_seen[call.client].add(call.tool)
        waiting[:] = [search for search in waiting if call.tool not in search.tool_ids]
        if call.run_ms is not None and call.server is not None:
            server = self.servers[call.server]
            server.run_ms.append(call.run_ms)
            if outcome == "server_error":
                server.failed_calls += 1

    def _count_in_hour(self, event: Event, what: str) -> None:
        self.counts_by_hour[event.at.isoformat(timespec="hours")[:13]][what] += 1


def event_time(time: datetime) -> str:
    """The time of an event as it is shown: ISO 8601 with milliseconds."""
    return time.isoformat(timespec="milliseconds")


def percentile(values: list[float], percent: int) -> float | None:
    """The smallest value that so many percent of all do not exceed; None for no values."""
    if not values:
        return None
    return round(sorted(values)[math.ceil(len(values) * percent / 100) - 1], 1)
