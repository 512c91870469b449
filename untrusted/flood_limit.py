"""Limits what a server may send that answers no request."""

from __future__ import annotations

from time import monotonic

_COUNTING_PERIOD_S = 60.0


class FloodError(Exception):
    """A server sent too much that answers no request. The connection ends."""


class FloodLimit:
    """Counts lines and bytes of a minute.

    Args:
        max_lines: most lines of a minute.
        max_bytes: most bytes of a minute.
        subject: what is counted, for the message of the error.
    """

    def __init__(self, max_lines: int, max_bytes: int, subject: str) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._subject = subject
        self._period_end = 0.0
        self._lines = self._bytes = 0

    def count(self, lines: int, size: int) -> None:
        """Count lines and bytes of the server.

        Raises:
            FloodError: it has sent too many within a minute.
        """
        if (now := monotonic()) >= self._period_end:
            self._period_end = now + _COUNTING_PERIOD_S
            self._lines = self._bytes = 0
        self._lines += lines
        self._bytes += size
        if self._lines > self._max_lines or self._bytes > self._max_bytes:
            raise FloodError(
                f"it was stopped, because it sent more than {self._max_lines:,} lines or "
                f"{self._max_bytes // 2**20} MB of {self._subject} within a minute"
            )
