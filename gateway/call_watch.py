"""Check, result and times of one call, collected while the gateway handles it."""

from __future__ import annotations

from time import perf_counter

import mcp.types as types

from ..gating.verdict import Verdict
from .events import Outcome


class CallWatch:
    """Collects the check, the result and the times of one call, until `end`.

    Attributes:
        verdict: result of the check; None before the check, and for requests that are not calls.
        result: the answer of the server.
        check_ms: milliseconds that the check took.
        run_ms: milliseconds that the server took; None where it was not asked.
        outcome: outcome of the call.
    """

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.result: types.CallToolResult | None = None
        self.check_ms = 0.0
        self.run_ms: float | None = None
        self.outcome: Outcome = "cancelled"
        self._at = perf_counter()

    def checked(self, verdict: Verdict) -> None:
        """Record the verdict and the time of the check."""
        now = perf_counter()
        self.check_ms, self._at = (now - self._at) * 1e3, now
        self.verdict = verdict
        if verdict.status != "passed":
            self.outcome = verdict.status

    def answered(self, result: types.CallToolResult) -> None:
        """Record the server's result."""
        self.run_ms = (perf_counter() - self._at) * 1e3
        self.result = result
        self.outcome = "tool_error" if result.is_error else "ok"

    def failed(self) -> None:
        """Record that the server did not answer, or refused."""
        self.outcome = "server_error"

    def end(self) -> None:
        """End the call, with any outcome."""
        if self.verdict is not None and self.verdict.passed and self.run_ms is None:
            self.run_ms = (perf_counter() - self._at) * 1e3
