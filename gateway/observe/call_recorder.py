"""Collects the check, the outcome and the times of one request, from which its event is made."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import mcp.types as types

from ...gating.verdict import Verdict
from ...retrieval import Hit

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
class SearchOutcome:
    """The outcome of a search. Clients do not see all of it.

    Args:
        tier: the tier that ran; "" if the arguments were wrong.
        found: the tools found, best first.
        abstained: whether nothing fits.
        reason: why it abstained.
        starting: how many servers were not ready.
        quarantined: how many tools waited for approval.
    """

    tier: str = ""
    found: tuple[Hit, ...] = ()
    abstained: bool = False
    reason: str | None = None
    starting: int = 0
    quarantined: int = 0

    @property
    def outcome(self) -> Literal["found", "nothing", "abstained", "invalid"]:
        """Outcome of the search."""
        if not self.tier:
            return "invalid"
        if self.abstained:
            return "abstained"
        return "found" if self.found else "nothing"


class CallRecorder:
    """Collects the answer to one request, and the check, the result and the times of a call.

    Attributes:
        answer: the answer to the client; an error until there is one. None if the client is asked
            first. Then its next request, with the answers, is recorded.
        verdict: result of the check; None before the check, and for requests that are not calls.
        result: the answer of the server.
        check_ms: milliseconds that the check took.
        run_ms: milliseconds that the server took; None where it was not asked.
        outcome: outcome of the call.
        search: outcome of the search, if the request is one and its arguments were right.
    """

    def __init__(self) -> None:
        self.answer: types.CallToolResult | None = types.CallToolResult(content=[], is_error=True)
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
