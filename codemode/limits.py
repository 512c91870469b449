"""What one script may use up."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..errors import RequestError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one script may use up.

    Args:
        seconds: of its own work; time in which it waits for tools does not count.
        total_seconds: from start to end, time in which it waits for tools included.
        memory: bytes.
        depth: functions that call each other.
        calls: of tools.
        extracts: values that `extract` is asked for.
        printed: characters kept of what it prints; more end it.
        code: characters of the script.

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
                raise RequestError(f"limits.{one.name}: a number above 0, not {value!r:.80}")
