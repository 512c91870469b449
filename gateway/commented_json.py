"""Reads JSON with comments and trailing commas, as editors and clients write it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: A string, a comment, or a comma. A string is matched first, so that its content stays.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)|,', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_VISIBLE = re.compile(r"[^\r\n]")


@dataclass(frozen=True, slots=True)
class Member:
    """Offsets of one member of an object in a text.

    Args:
        key: its key.
        start: offset of the opening quote of the key.
        value: offset of the value.
        end: offset after the value.
    """

    key: str
    start: int
    value: int
    end: int


def plain_json(text: str) -> str:
    """The text with comments and trailing commas replaced by spaces, so that offsets stay the same.

    Example:
        >>> plain_json('[1, /* two */ 2,]')
        '[1,           2 ]'
    """
    pieces: list[str] = []
    done = 0
    comma: int | None = None  # index in `pieces` of a comma after which nothing came yet
    for found in _TOKEN.finditer(text):
        between = text[done : found.start()]
        if comma is not None and between.strip(" \t\r\n"):
            if between.lstrip(" \t\r\n")[0] in "]}":
                pieces[comma] = " "
            comma = None
        pieces.append(between)
        part = found.group()
        done = found.end()
        if part == ",":
            is_doubled = comma is not None or between.rstrip(" \t\r\n")[-1:] in ("[", "{")
            comma = None if is_doubled else len(pieces)
            pieces.append(part)
        elif part[0] == "/":
            pieces.append(_VISIBLE.sub(" ", part))
        else:
            comma = None
            pieces.append(part)
    rest = text[done:]
    if comma is not None and rest.lstrip(" \t\r\n")[:1] in ("]", "}"):
        pieces[comma] = " "
    return "".join([*pieces, rest])


def json_comments(text: str) -> tuple[str, ...]:
    """The comments of a JSON text."""
    return tuple(found.group() for found in _TOKEN.finditer(text) if found.group()[0] == "/")


def parse_json(text: str) -> tuple[Any, tuple[str, ...]]:
    """The value of a JSON text that may have comments and trailing commas.

    Returns:
        The value, and the keys that occur twice in one object. The last of them is used.

    Raises:
        json.JSONDecodeError: the text is not JSON; line and column are those of `text`.
        RecursionError: values are nested too deeply.
        ValueError: a number has more digits than Python converts.
    """
    doubled: dict[str, None] = {}

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    doubled[key] = None
                seen.add(key)
        return values

    value = json.loads(plain_json(text), object_pairs_hook=made)
    return value, tuple(doubled)


def members(plain: str, at: int = 0) -> Iterator[Member]:
    """Members of the object that starts at an offset, in order.

    Args:
        plain: valid JSON, as `plain_json` returns it.
        at: offset of the object; white space before it is skipped.
    """
    decoder = json.JSONDecoder()
    at = _skip(plain, at) + 1
    while plain[(at := _skip(plain, at))] != "}":
        start = at
        key, at = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, at) + 1)
        _, end = decoder.raw_decode(plain, value)
        yield Member(key, start, value, end)
        at = _skip(plain, end)
        if plain[at] == ",":
            at += 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
