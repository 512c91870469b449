"""Bytes that should be JSON: their values are counted, cut emojis repaired, and they are read.

Servers and clients cut texts at a number of UTF-16 units or bytes. The rest of an emoji is then the
escape of half a surrogate pair (U+D83D), or bytes that are not UTF-8. JSON parsers refuse the
whole message because of it.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from typing import Any

from . import MAX_LOOP_CHARS, MAX_MESSAGE_VALUES
from .text_bytes import DamageLimit


class ValueLimit:
    """Counts the values in chunks of JSON, also across their bounds.

    A small object takes three bytes in a message and a hundred times as much once it is read, in
    one block during which no other server is served: a message of 31 MB took 5 s and 3 GB.

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


def has_many_values(message: bytes) -> bool:
    """Whether a whole message has more than `MAX_MESSAGE_VALUES`; other threads run in between.

    Args:
        message: the JSON text.
    """
    if len(message) <= MAX_MESSAGE_VALUES:
        return False
    limit = ValueLimit()
    for start in range(0, len(message), MAX_LOOP_CHARS):
        limit.feed(message[start : start + MAX_LOOP_CHARS])
    return limit.is_exceeded


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
        self._damaged_count = 0

    def take_damaged_count(self) -> int:
        """The number of replacements since the last call."""
        count, self._damaged_count = self._damaged_count, 0
        return count

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
            text, count = _SURROGATE_ESCAPES.subn(_replace_lone_halves, text)
            self._damaged_count += count
        return text


def repaired_json(text: bytes, damage: DamageLimit | None = None) -> bytes:
    """A whole JSON text, repaired as by `JsonRepair`, in parts: other threads run in between.

    Args:
        text: the JSON text.
        damage: counts the halves of surrogate pairs; None for any number.

    Raises:
        DamagedTextError: there are too many of them.
    """
    repair, parts = JsonRepair(), []
    for start in range(0, len(text), MAX_LOOP_CHARS):
        parts.append(repair.feed(text[start : start + MAX_LOOP_CHARS]))
        if damage is not None:
            damage.count(repair.take_damaged_count())
    return b"".join([*parts, repair.end()])


def read_json(
    text: str | bytes,
    *,
    max_chars: int | None = None,
    strict: bool = True,
    parse_int: Callable[[str], Any] | None = None,
    parse_constant: Callable[[str], Any] | None = None,
) -> Any:
    """A JSON value.

    Args:
        text: the JSON text.
        max_chars: most characters; None where the text was bounded before.
        strict: whether line breaks inside texts are refused.
        parse_int: makes a number of an integer's digits.
        parse_constant: makes a value of `NaN` and `Infinity`.

    Raises:
        ValueError: it is not JSON (`json.JSONDecodeError`, which says where), too long, or nested
            too deep.

    Example:
        >>> read_json('{"a": [1, 2]}')
        {'a': [1, 2]}
    """
    if max_chars is not None and len(text) > max_chars:
        raise ValueError(f"more than {max_chars:,} characters")
    try:
        if strict and parse_int is None and parse_constant is None:
            return json.loads(text)  # other arguments make a new decoder each time
        return json.loads(text, strict=strict, parse_int=parse_int, parse_constant=parse_constant)
    except RecursionError:
        raise ValueError("is nested too deep to be read as JSON") from None


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


def parsed_json(text: bytes, *, allow_nan: bool = False) -> Any:
    """The value of bytes whose values were counted; many times as fast as `read_json`.

    Args:
        text: the JSON text.
        allow_nan: whether `NaN` and `Infinity` are numbers, which Python's servers write.

    Raises:
        ValueError: it is not JSON, or is nested deeper than some 200 levels.
    """
    from pydantic_core import from_json

    return from_json(text, allow_inf_nan=allow_nan)
