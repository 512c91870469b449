"""Figures from a file of events: searches, misses, calls, tokens, tools, servers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Row = Mapping[str, Any]


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
        row: the event.
        tool_ids: ids of the tools that it offered.
    """

    row: Row
    tool_ids: frozenset[str]


class EventStats:
    """Counts events. Takes those of the gateway, and those of sessions of the library.

    A search is a miss if it offered no tool, or if no tool that it offered was called afterwards
    in the same conversation.

    Args:
        rows: events in the order they were written, in JSON form.

    Raises:
        KeyError, TypeError, ValueError: an event lacks a field, or has one of another type.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        #: Times of the first and the last event, ISO 8601; None without events.
        self.first_time: str | None = None
        self.last_time: str | None = None
        #: Outcome of a search, such as `found` or `abstained`, to the number of searches.
        self.search_outcomes: Counter[str] = Counter()
        #: Milliseconds of each search.
        self.search_ms: list[float] = []
        #: Outcome or check status of a call to the number of calls.
        self.call_outcomes: Counter[str] = Counter()
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
        self._searches_without_offer: list[Row] = []
        #: Profile of the gateway to the ids of the tools that exist for it.
        self.profile_tools: dict[str, frozenset[str]] = {}
        #: Profile to the ids of the tools found or called; sessions of the library have none.
        self._tools_seen: defaultdict[str | None, set[str]] = defaultdict(set)
        for row in rows:
            self._count_event(row)

    @property
    def not_called_count(self) -> int:
        """Searches that offered tools of which none was called afterwards."""
        return sum(map(len, self.open_searches.values()))

    @property
    def missed_count(self) -> int:
        """Searches that offered nothing, or nothing that was called afterwards."""
        return self.search_outcomes.total() - self.search_outcomes["found"] + self.not_called_count

    @property
    def missed_searches(self) -> list[Row]:
        """The events of these searches, in the order of their times."""
        open_searches = (search for waiting in self.open_searches.values() for search in waiting)
        rows = [*self._searches_without_offer, *(search.row for search in open_searches)]
        return sorted(rows, key=lambda row: str(row["at"]))

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
            "from": self.first_time,
            "to": self.last_time,
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
        spent = datetime.fromisoformat(self.last_time) - datetime.fromisoformat(self.first_time)
        return spent / timedelta(days=1)

    def _count_event(self, row: Row) -> None:
        self.first_time = self.first_time or str(row["at"])
        self.last_time = str(row["at"])
        match row["kind"]:
            case "search":
                self._count_search(row, row["outcome"], [hit["id"] for hit in row["found"]])
                self.search_ms.append(float(row["ms"]))
                self.sent_tokens["search"] += int(row["tokens"])
            case "turn" if row["called"] is None:
                outcome = "abstained" if row["abstained"] else "found"
                self._count_search(row, outcome, row["offered"])
                self.search_ms.append(float(row["timings"]["search"]))
            case "details":
                self.sent_tokens["details"] += int(row["tokens"])
            case "list":
                self.open_searches[row["session"]]
                self.definition_tokens += int(row["permitted_tokens"])
                self.sent_tokens["list"] += int(row["tokens"])
            case "catalog":
                self.tool_ids = frozenset(row["tools"])
                # Earlier versions of the gateway recorded no profile.
                if "client" in row:
                    own_tools = row["profile_tools"]
                    self.profile_tools[row["client"]] = (
                        self.tool_ids if own_tools is None else frozenset(own_tools)
                    )
            case "call":
                self._count_call(row)
            case "server":
                server = self.servers[row["server"]]
                if row["problem"] is not None:
                    server.failures += 1
                elif row["ms"] is not None:
                    server.start_ms.append(float(row["ms"]))

    def _count_search(self, row: Row, outcome: str, tool_ids: Iterable[str]) -> None:
        ids = frozenset(tool_ids)
        self.search_outcomes[outcome] += 1
        self.counts_by_hour[str(row["at"])[:13]]["searches"] += 1
        self._tools_seen[row.get("client")] |= ids
        waiting = self.open_searches[row["session"]]
        if outcome == "found":
            waiting.append(OpenSearch(row, ids))
        else:
            self._searches_without_offer.append(row)

    def _count_call(self, row: Row) -> None:
        outcome = row.get("outcome", row["status"])
        self.call_outcomes[outcome] += 1
        self.counts_by_hour[str(row["at"])[:13]]["calls"] += 1
        waiting = self.open_searches[row["session"]]
        if row["status"] != "passed":
            return
        tool = row["tool"]
        self._tools_seen[row.get("client")].add(tool)
        waiting[:] = [search for search in waiting if tool not in search.tool_ids]
        if row.get("run_ms") is not None:
            server = self.servers[row["server"]]
            server.run_ms.append(float(row["run_ms"]))
            if outcome == "server_error":
                server.failed_calls += 1


def percentile(values: list[float], percent: int) -> float | None:
    """The smallest value that so many percent of all do not exceed; None for no values."""
    if not values:
        return None
    return round(sorted(values)[math.ceil(len(values) * percent / 100) - 1], 1)
