"""Stores long results for the client that made the call."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic

import mcp.types as types

from ...errors import RequestError
from ...loaders.counting import bundled_counter

STORED_SECONDS = 3_600.0
#: Most characters of all stored results together, and of one result.
_MOST_CHARS, _LONGEST = 100_000_000, 50_000_000
_PART_CHARS = 20_000
_SHOWN_CHARS = 4_000


@dataclass(slots=True)
class _StoredResult:
    owner: object
    #: The tools that gave it. All of them must still be permitted to read it.
    tool_ids: tuple[str, ...]
    #: The client's profile at the time of the call.
    permission: object
    text: str
    stored_at: float
    #: Number of characters that the client has read.
    read_chars: int = 0


class ResultStore:
    """The long results of all clients. If there are too many, the oldest are deleted.

    Args:
        most_chars: most characters of all results together.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, most_chars: int = _MOST_CHARS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most_chars = most_chars
        self._clock = clock
        self._stored: OrderedDict[str, _StoredResult] = OrderedDict()
        self._chars = 0

    @property
    def chars(self) -> int:
        """Number of stored characters."""
        return self._chars

    def add(
        self,
        owner: object,
        tool_ids: tuple[str, ...],
        permission: object,
        text: str,
        read_chars: int,
    ) -> str:
        """Store a text. The client has already seen its first `read_chars` characters.

        Returns:
            The id to read it.
        """
        name = token_hex(6)
        text = text[: min(_LONGEST, self._most_chars)]
        self._stored[name] = _StoredResult(
            owner, tool_ids, permission, text, self._clock(), read_chars
        )
        self._chars += len(text)
        self.sweep()
        return name

    def get(self, owner: object, name: str) -> _StoredResult | None:
        """A result of this owner that is less than an hour old; None if there is none."""
        self.sweep()
        stored = self._stored.get(name)
        return stored if stored is not None and stored.owner is owner else None

    def delete_all(self, owner: object) -> None:
        """Delete the results of an owner."""
        names = [name for name, result in self._stored.items() if result.owner is owner]
        for name in names:
            self._delete(name)

    def sweep(self) -> None:
        """Delete results that are too old, and the oldest ones if there are too many characters."""
        oldest = self._clock() - STORED_SECONDS
        while self._stored:
            name, result = next(iter(self._stored.items()))
            if result.stored_at >= oldest and self._chars <= self._most_chars:
                break
            self._delete(name)

    def _delete(self, name: str) -> None:
        self._chars -= len(self._stored.pop(name).text)


class Results:
    """The long results of one client's session.

    Args:
        store: results of all clients.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store

    def shorten(
        self,
        result: types.CallToolResult,
        tool_id: str,
        permission: object,
        *,
        tokens: int,
        chars: int | None = None,
    ) -> types.CallToolResult:
        """The whole result, or its beginning and an id to read the rest.

        Args:
            result: the server's result.
            tool_id: id of the called tool.
            permission: the client's profile at the time of the call.
            tokens: most tokens of a result that is returned whole.
            chars: limit in characters from the tool's definition, which replaces `tokens`.
        """
        text = _text_of(result)
        if _fits(text, tokens, chars):
            return result
        # Never the whole text, which may be short if the limit is low.
        first = min(_SHOWN_CHARS, len(text) // 2)
        name = self._store.add(self, (tool_id,), permission, text, first)
        note = (
            f"[{len(text):,} characters, of which the first {first:,} are above. "
            f'Read on with read_result {{"id": "{name}"}}.{_shape(result)}]'
        )
        others = [part for part in result.content if not isinstance(part, types.TextContent)]
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=text[:first]),
                types.TextContent(type="text", text=note),
                *(part for part in others if not isinstance(part, types.EmbeddedResource)),
            ],
            is_error=result.is_error,
        )

    def store(self, text: str, tool_ids: tuple[str, ...], permission: object) -> str:
        """Store a text with results of several tools.

        Args:
            text: the whole text.
            tool_ids: ids of the tools.
            permission: the client's profile at the time of the call.

        Returns:
            The id to read it, from its beginning.
        """
        return self._store.add(self, tool_ids, permission, text, 0)

    def read(
        self,
        name: str,
        first: int | None = None,
        last: int | None = None,
        *,
        readable: Callable[[str, object], bool],
    ) -> str:
        """A part of a stored result.

        Args:
            name: id of the result.
            first: index of the first character; by default, the end of the last part.
            last: index after the last character.
            readable: function of a tool's id and the profile at the call: whether the result may
                still be read.

        Raises:
            RequestError: there is no such result, or it may not be read.
        """
        stored = self._store.get(self, name)
        if stored is None or not all(
            readable(tool_id, stored.permission) for tool_id in stored.tool_ids
        ):
            raise RequestError(
                f"read_result: no result {name!r:.40}; results are deleted after an hour: call "
                "the tool again"
            )
        start = stored.read_chars if first is None else min(first, len(stored.text))
        end = min(start + _PART_CHARS if last is None else max(last, start), start + _PART_CHARS)
        part = stored.text[start:end]
        stored.read_chars = start + len(part)
        remaining = len(stored.text) - stored.read_chars
        return part + (
            f"\n[{remaining:,} characters left]" if remaining else "\n[end of the result]"
        )

    def clear(self) -> None:
        """Delete all results."""
        self._store.delete_all(self)


def _fits(text: str, tokens: int, chars: int | None) -> bool:
    if chars is not None:
        return len(text) <= chars
    # A token has at least one character, so most results need no counting.
    return len(text) <= tokens or bundled_counter().count(text[: tokens * 16]) <= tokens


def _text_of(result: types.CallToolResult) -> str:
    """The texts of a result, and its structured content if that adds something."""
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    for part in result.content:
        if isinstance(part, types.EmbeddedResource):
            resource = part.resource
            if isinstance(resource, types.TextResourceContents):
                texts.append(resource.text)
            else:
                texts.append(resource.blob)
    text = "\n".join(texts)
    if result.structured_content is None:
        return text
    structured = json.dumps(result.structured_content, ensure_ascii=False)
    # Most servers give the same content twice. Then the text is used.
    return (
        text
        if text and len(structured) <= 2 * len(text) + 1_000
        else f"{text}\n{structured}".strip()
    )


def _shape(result: types.CallToolResult) -> str:
    """A short description of a result's kind of value."""
    value = result.structured_content
    if not isinstance(value, dict):
        return ""
    keys = ", ".join(str(key)[:40] for key in list(value)[:12])
    return f" Its structured form has the keys: {keys}."
