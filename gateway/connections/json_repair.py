"""Repairs JSON that a cut inside an emoji has damaged: half of a surrogate pair, or damaged UTF-8.

Servers and clients cut texts at a number of UTF-16 units or bytes. The rest of an emoji is then the
escape of half a surrogate pair (U+D83D), or bytes that are not UTF-8. JSON parsers refuse the
whole message because of it.
"""

from __future__ import annotations

import codecs
import re

_REPLACEMENT_ESCAPE = b"\\ufffd"
_LOW_SURROGATE = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
#: An escape of a half, with the low half after it. An escaped backslash before it is no part of it.
_SURROGATE_ESCAPES = re.compile(
    rb"(?<!\\)((?:\\\\)*+)(\\u[dD][89a-fA-F][0-9a-fA-F]{2})(%s)?" % _LOW_SURROGATE
)
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]")
#: A half that is not complete, or a high half without a complete escape after it.
_INCOMPLETE_ESCAPE = re.compile(
    rb"\\(?:u(?:[dD](?:[89a-fA-F][0-9a-fA-F]?)?)?)?"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?"
)
#: Most bytes of such an end.
_MAX_INCOMPLETE_BYTES = 11


class JsonRepair:
    r"""Replaces half surrogate pairs and damaged UTF-8 by U+FFFD in a stream of JSON texts.

    Whatever ends with a line break is returned at once, so that no message waits for the next one.

    Example:
        >>> JsonRepair().feed(rb'{"text": "cut \ud83d"}') == rb'{"text": "cut \ufffd"}'
        True
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._incomplete_escape = b""

    def feed(self, chunk: bytes) -> bytes:
        """The repaired text of this chunk. A pair that is not complete yet comes with the next."""
        return self._repaired(chunk, is_end=False)

    def end(self) -> bytes:
        """The rest at the end of the stream."""
        return self._repaired(b"", is_end=True)

    def _repaired(self, chunk: bytes, *, is_end: bool) -> bytes:
        if not chunk.isascii() or self._decoder.getstate()[0] or is_end:
            chunk = self._decoder.decode(chunk, is_end).encode()
        text, self._incomplete_escape = self._incomplete_escape + chunk, b""
        if b"\\" not in text:
            return text
        if not is_end:
            text, self._incomplete_escape = _split_incomplete_escape(text)
        if b"\\ud" in text or b"\\uD" in text:
            text = _SURROGATE_ESCAPES.sub(_replace_lone_halves, text)
        return text


def repaired_json(text: bytes) -> bytes:
    """A whole JSON text, repaired as by `JsonRepair`."""
    repair = JsonRepair()
    return repair.feed(text) + repair.end()


def _replace_lone_halves(match: re.Match[bytes]) -> bytes:
    backslashes, half, low_half = match.groups()
    if low_half is None:
        return bytes(backslashes + _REPLACEMENT_ESCAPE)
    if _HIGH_SURROGATE.match(half):
        return match[0]
    return bytes(backslashes + 2 * _REPLACEMENT_ESCAPE)


def _split_incomplete_escape(text: bytes) -> tuple[bytes, bytes]:
    """The text up to an escape that may continue in the next chunk, and the rest."""
    start = text.find(b"\\", max(0, len(text) - _MAX_INCOMPLETE_BYTES))
    while start >= 0:
        backslashes_before = start - len(text[:start].rstrip(b"\\"))
        if backslashes_before % 2 == 0 and _INCOMPLETE_ESCAPE.fullmatch(text, start):
            return text[:start], text[start:]
        start = text.find(b"\\", start + 1)
    return text, b""
