"""Limits how many values a message may have.

A small object takes three bytes in a message and a hundred times as much once it is read, in one
block during which no other server is served: a message of 31 MB took 5 s and 3 GB.
"""

from __future__ import annotations

#: Most values of one message: numbers, texts, lists, objects. They are read in about 0.2 s.
MAX_MESSAGE_VALUES = 1_000_000


class ValueLimit:
    """Counts the values in chunks of JSON, also across their bounds.

    Counted are commas and the beginnings of lists and objects, outside of texts. In text that is no
    JSON, they may be counted everywhere.

    Attributes:
        values: number of values so far.

    Example:
        >>> limit = ValueLimit()
        >>> limit.feed(b'{"a, b": [1, 2], "c')
        >>> limit.feed(b', [": 3}')
        >>> limit.values
        4
    """

    def __init__(self) -> None:
        self.values = 0
        self._open_escape = b""
        self._is_in_text = False

    @property
    def is_exceeded(self) -> bool:
        """Whether there were too many values."""
        return self.values > MAX_MESSAGE_VALUES

    def restart(self) -> None:
        """Count a new message."""
        self.values, self._open_escape, self._is_in_text = 0, b"", False

    def feed(self, chunk: bytes) -> None:
        """Count the values of the next chunk of the message."""
        chunk = (self._open_escape + chunk).replace(b"\\\\", b"").replace(b"\r", b"\n")
        self._open_escape = b"\\" if chunk.endswith(b"\\") else b""
        chunk = chunk.replace(b'\\"', b"")
        parts = chunk.split(b'"')
        texts, outside = parts[not self._is_in_text :: 2], parts[self._is_in_text :: 2]
        if any(b"\n" in text for text in texts):
            # No text of JSON has a line break: this one began with a quotation mark elsewhere.
            last_line = chunk[chunk.rindex(b"\n") :]
            outside, self._is_in_text = parts, last_line.count(b'"') % 2 == 1
        elif len(parts) % 2 == 0:
            self._is_in_text = not self._is_in_text
        joined = b"".join(outside)
        self.values += sum(joined.count(sign) for sign in (b",", b"[", b"{"))
