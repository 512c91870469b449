"""Results that are too long to be shown whole, kept for the client that asked."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic

import mcp.types as types

from ..errors import RequestError
from ..loaders.counting import bundled_counter

KEPT_SECONDS = 3_600.0
_MOST_CHARS = 50_000_000
_PART = 20_000
_SHOWN = 4_000


@dataclass(slots=True)
class _Stored:
    text: str
    at: float
    read: int = 0


class Results:
    """The long results of one client's session.

    Args:
        limit: tokens up to which a result is passed through unchanged.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stored: OrderedDict[str, _Stored] = OrderedDict()

    def shown(self, result: types.CallToolResult, limit: int | None = None) -> types.CallToolResult:
        """The result, or its beginning and an id by which the rest is read.

        Args:
            result: as the server gave it.
            limit: tokens, in place of the session's limit.
        """
        text = _text_of(result)
        most = self._limit if limit is None else limit
        # A token is at least a character: most results need no counting.
        if len(text) <= most or bundled_counter().count(text[: most * 16]) <= most:
            return result
        self._sweep()
        name = token_hex(6)
        # Never the whole text, which is longer than `most` characters.
        first = min(_SHOWN, most)
        self._stored[name] = _Stored(text[:_MOST_CHARS], monotonic(), first)
        note = (
            f"[{len(text):,} characters, of which the first {first:,} are above. "
            f'Read on with read_result {{"id": "{name}"}}. {_shape(result)}]'
        )
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=text[:first]),
                types.TextContent(type="text", text=note),
            ],
            is_error=result.is_error,
        )

    def read(self, name: str, first: int | None = None, last: int | None = None) -> str:
        """A part of a stored result.

        Args:
            name: its id.
            first: place of the first character; where the last reading ended, when absent.
            last: place after the last character.

        Raises:
            RequestError: nothing is stored under this id.
        """
        self._sweep()
        stored = self._stored.get(name)
        if stored is None:
            raise RequestError(f"read_result: no result {name!r:.40}; results are kept for an hour")
        start = stored.read if first is None else min(first, len(stored.text))
        end = min(start + _PART if last is None else max(last, start), start + _PART)
        part = stored.text[start:end]
        stored.read = start + len(part)
        left = len(stored.text) - stored.read
        return part + (f"\n[{left:,} characters left]" if left else "\n[end of the result]")

    def clear(self) -> None:
        """Forget all results."""
        self._stored.clear()

    def _sweep(self) -> None:
        old = monotonic() - KEPT_SECONDS
        for name in [name for name, one in self._stored.items() if one.at < old]:
            del self._stored[name]
        while sum(len(one.text) for one in self._stored.values()) > _MOST_CHARS:
            self._stored.popitem(last=False)


def _text_of(result: types.CallToolResult) -> str:
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    if not texts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(texts)


def _shape(result: types.CallToolResult) -> str:
    """What kind of value the result is, in a few words."""
    value = result.structured_content
    if value is None:
        return ""
    keys = ", ".join(map(str, list(value)[:12]))
    return f"Its structured form has the keys: {keys}."
