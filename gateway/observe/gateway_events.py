"""Events of a gateway: searches, details, calls, lists of tools, starts of servers.

A call collects its outcome here.

They have the form of a session's events, so that the same sinks and the same reader work. They
contain queries, arguments and results only if content is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Literal

import mcp.types as types

from ...gating.verdict import Verdict
from ...session.event import CallEvent, EventOrigin

Outcome = Literal[
    "ok",
    "tool_error",
    "server_error",
    "cancelled",
    "denied",
    "unapproved",
    "invalid",
    "unknown",
    "promoted",
]


@dataclass(frozen=True, slots=True)
class ListEvent:
    """A client was given its list of tools; recorded once per session.

    Args:
        origin: session, turn and time.
        client: name of its profile.
        shown: how many tools it sees.
        tokens: tokens of their definitions.
        permitted: how many tools it may use.
        permitted_tokens: tokens of the definitions of all permitted tools.
        catalog: fingerprint of the catalog version.
    """

    kind: ClassVar[str] = "list"

    origin: EventOrigin
    client: str
    shown: int
    tokens: int
    permitted: int
    permitted_tokens: int
    catalog: str

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": self.kind,
            **self.origin.to_dict(),
            "client": self.client,
            "shown": self.shown,
            "tokens": self.tokens,
            "permitted": self.permitted,
            "permitted_tokens": self.permitted_tokens,
            "catalog": self.catalog,
        }


@dataclass(frozen=True, slots=True)
class CatalogEvent:
    """The tools of a catalog version; recorded with each profile's first list or search in it.

    Args:
        origin: session, turn and time.
        client: name of the profile.
        catalog: fingerprint of the version.
        tools: id of each tool that is not quarantined, to the tokens of its definition.
        profile_tools: ids of those tools that exist for the profile; None for all.
    """

    kind: ClassVar[str] = "catalog"

    origin: EventOrigin
    client: str
    catalog: str
    tools: Mapping[str, int]
    profile_tools: tuple[str, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": self.kind,
            **self.origin.to_dict(),
            "client": self.client,
            "catalog": self.catalog,
            "tools": dict(self.tools),
            "profile_tools": None if self.profile_tools is None else list(self.profile_tools),
        }


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of a search. Clients do not see all of it.

    Args:
        tier: the tier that ran; "" if the arguments were wrong.
        found: ids and scores, best first.
        abstained: whether nothing fits.
        reason: why it abstained.
        starting: how many servers were not ready.
        quarantined: how many tools waited for approval.
    """

    tier: str = ""
    found: tuple[tuple[str, float], ...] = ()
    abstained: bool = False
    reason: str | None = None
    starting: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class SearchEvent:
    """A client searched for tools.

    Args:
        origin: session, number of the search, and time.
        client: name of its profile.
        query: hash of the query, hexadecimal; see `Recorder.hashed`.
        server: the one server searched, None for all.
        tier: the tier that ran; "" if the arguments were wrong.
        found: ids and scores, best first.
        abstained: whether nothing fits.
        reason: why it abstained.
        starting: how many servers were not ready.
        quarantined: how many tools waited for approval.
        tokens: tokens of the answer.
        ms: milliseconds.
        content: the query, if asked for.
    """

    kind: ClassVar[str] = "search"

    origin: EventOrigin
    client: str
    query: str
    server: str | None
    tier: str
    found: tuple[tuple[str, float], ...]
    abstained: bool
    reason: str | None
    starting: int
    quarantined: int
    tokens: int
    ms: float
    content: Mapping[str, Any] | None = None

    @property
    def outcome(self) -> Literal["found", "nothing", "abstained", "invalid"]:
        """Outcome of the search."""
        if not self.tier:
            return "invalid"
        if self.abstained:
            return "abstained"
        return "found" if self.found else "nothing"

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        values = {
            "kind": self.kind,
            **self.origin.to_dict(),
            "client": self.client,
            "query": self.query,
            "server": self.server,
            "tier": self.tier,
            "outcome": self.outcome,
            "found": [{"id": tool_id, "score": score} for tool_id, score in self.found],
            "reason": self.reason,
            "starting": self.starting,
            "quarantined": self.quarantined,
            "tokens": self.tokens,
            "ms": round(self.ms, 3),
        }
        return values if self.content is None else values | {"content": dict(self.content)}


@dataclass(frozen=True, slots=True)
class DetailsEvent:
    """A client asked for definitions.

    Args:
        origin: session, turn and time.
        client: name of its profile.
        found: ids of the tools described.
        denied: how many of the names are not permitted.
        unknown: how many of the names are unknown.
        tokens: tokens of the answer.
        ms: milliseconds.
    """

    kind: ClassVar[str] = "details"

    origin: EventOrigin
    client: str
    found: tuple[str, ...]
    denied: int
    unknown: int
    tokens: int
    ms: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": self.kind,
            **self.origin.to_dict(),
            "client": self.client,
            "found": list(self.found),
            "denied": self.denied,
            "unknown": self.unknown,
            "tokens": self.tokens,
            "ms": round(self.ms, 3),
        }


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A client called a tool: the check and the outcome.

    Args:
        check: whether the call could go ahead; see `CallEvent`.
        client: name of the profile.
        server: server of the tool; "" if there is no such tool.
        outcome: `ok`; `tool_error`, the tool answered with an error; `server_error`, the server
            did not answer or refused; `cancelled`; else the status of the check.
        run_ms: milliseconds that the server took, None if it was not called.
        sent: characters of the arguments as JSON.
        received: characters of the result's content.
        content: arguments and result, if asked for.
    """

    kind: ClassVar[str] = "call"

    check: CallEvent
    client: str
    server: str
    outcome: Outcome
    run_ms: float | None
    sent: int
    received: int
    content: Mapping[str, Any] | None = None

    @property
    def origin(self) -> EventOrigin:
        """Where and when."""
        return self.check.origin

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the check and the outcome."""
        values = self.check.to_dict() | {
            "client": self.client,
            "server": self.server,
            "outcome": self.outcome,
            "ok": self.outcome == "ok",
            "run_ms": None if self.run_ms is None else round(self.run_ms, 3),
            "sent": self.sent,
            "received": self.received,
        }
        return values if self.content is None else values | {"content": dict(self.content)}


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server started, changed its list, stopped or failed.

    Args:
        origin: time; the session's id is `gateway`.
        server: name.
        state: its new state.
        ms: milliseconds of the start, None if it did not start now.
        tools: how many of its tools are known.
        problem: the problem without secrets, if there is one.
    """

    kind: ClassVar[str] = "server"

    origin: EventOrigin
    server: str
    state: str
    ms: float | None = None
    tools: int = 0
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "kind": self.kind,
            **self.origin.to_dict(),
            "server": self.server,
            "state": self.state,
            "ms": None if self.ms is None else round(self.ms, 3),
            "tools": self.tools,
            "problem": self.problem,
        }


class CallRecorder:
    """Collects the check, the result and the times of one call, until `end`.

    Attributes:
        verdict: result of the check; None before the check, and for requests that are not calls.
        result: the answer of the server.
        check_ms: milliseconds that the check took.
        run_ms: milliseconds that the server took; None where it was not asked.
        outcome: outcome of the call.
        search: outcome of the search, if the request is one and its arguments were right.
    """

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.result: types.CallToolResult | None = None
        self.check_ms = 0.0
        self.run_ms: float | None = None
        self.outcome: Outcome = "cancelled"
        self.search: SearchOutcome | None = None
        self._step_start = perf_counter()

    def record_check(self, verdict: Verdict) -> None:
        """Record the verdict and the time of the check."""
        now = perf_counter()
        self.check_ms, self._step_start = (now - self._step_start) * 1e3, now
        self.verdict = verdict
        if verdict.status != "passed":
            self.outcome = verdict.status

    def record_refusal(self, verdict: Verdict) -> None:
        """Record that the call passed its check, but not the one directly before it is sent."""
        self.verdict = verdict
        if verdict.status != "passed":
            self.outcome = verdict.status

    def record_result(self, result: types.CallToolResult) -> None:
        """Record the server's result."""
        self.run_ms = (perf_counter() - self._step_start) * 1e3
        self.result = result
        self.outcome = "tool_error" if result.is_error else "ok"

    def record_failure(self) -> None:
        """Record that the server did not answer, or refused."""
        self.outcome = "server_error"

    def end(self) -> None:
        """End the call, with any outcome."""
        if self.verdict is not None and self.verdict.passed and self.run_ms is None:
            self.run_ms = (perf_counter() - self._step_start) * 1e3
