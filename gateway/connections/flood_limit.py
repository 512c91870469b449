"""Limits what a server may send that answers no request."""

from __future__ import annotations

from time import monotonic

from .connection_errors import FloodError

_PERIOD_S = 60.0


class FloodLimit:
    """Counts lines and bytes of a minute.

    Args:
        most_lines: most lines of a minute.
        most_bytes: most bytes of a minute.
        subject: what is counted, for the message of the error.
    """

    def __init__(self, most_lines: int, most_bytes: int, subject: str) -> None:
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._subject = subject
        self._period_end = 0.0
        self._lines = self._bytes = 0

    def count(self, lines: int, size: int) -> None:
        """Count lines and bytes of the server.

        Raises:
            FloodError: it has sent too many within a minute.
        """
        if (now := monotonic()) >= self._period_end:
            self._period_end = now + _PERIOD_S
            self._lines = self._bytes = 0
        self._lines += lines
        self._bytes += size
        if self._lines > self._most_lines or self._bytes > self._most_bytes:
            raise FloodError(
                f"it was stopped, because it sent more than {self._most_lines:,} lines or "
                f"{self._most_bytes // 2**20} MB of {self._subject} within a minute"
            )
