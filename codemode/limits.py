"""Limits of time, memory and calls of one script."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import RequestError


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of time, memory and calls of one script.

    Args:
        seconds: computing time in seconds. Waiting for tools does not count.
        total_seconds: seconds from start to end, with waiting for tools.
        memory: memory in bytes.
        depth: depth of nested function calls.
        calls: number of tool calls.
        extracts: number of calls of `extract`.
        printed: characters of printed output; more end the script.
        code: characters of the script itself.

    Raises:
        RequestError: a limit is not above 0.
    """

    seconds: float = 10.0
    total_seconds: float = 300.0
    memory: int = 128_000_000
    depth: int = 200
    calls: int = 1_000
    extracts: int = 100
    printed: int = 1_000_000
    code: int = 50_000

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise RequestError(
                    f"limits.{one.name}: must be a number above 0, not {value!r:.80}"
                )
