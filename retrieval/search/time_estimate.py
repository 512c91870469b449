"""How long a tier or a candidate of a reranker takes, from runs that were measured."""

from __future__ import annotations

from time import monotonic

# Weight of the newest run in the average.
_SMOOTHING = 0.2
# Seconds after which a run that would be too slow is tried again; doubled by each retry.
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 300.0


class TimeEstimate:
    """Average time of recent runs.

    One slow run must not refuse requests forever. So when the newest measurement is old, one run is
    permitted although the estimate is too long: after 1 second, then after 2, 4, ... up to 300.

    Attributes:
        ms: milliseconds; None before the first run.
    """

    def __init__(self) -> None:
        self.ms: float | None = None
        self._measured_at = self._retry_at = 0.0
        self._retry_s = _FIRST_RETRY_S

    def record(self, ms: float) -> None:
        """Add a finished run. After a pause of a second, its time replaces the average."""
        is_old = monotonic() - self._measured_at >= _FIRST_RETRY_S
        smoothed = ms if self.ms is None else self.ms + _SMOOTHING * (ms - self.ms)
        self._set(ms if is_old else smoothed)

    def record_unfinished(self, ms: float) -> None:
        """Add a run that was given up after this time: it takes at least as long."""
        self._set(max(self.ms or 0.0, ms))

    def allows(self, ms_left: float) -> bool:
        """Whether a run may begin: it fits in the time left, or the estimate is due for a retry."""
        if self.ms is None or self.ms <= ms_left:
            self._retry_s = _FIRST_RETRY_S
            return True
        now = monotonic()
        if ms_left <= 0 or now < self._retry_at:
            return False
        self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        self._retry_at = now + self._retry_s
        return True

    def _set(self, ms: float) -> None:
        self.ms, self._measured_at = ms, monotonic()
        self._retry_at = self._measured_at + self._retry_s
