"""Results that are too long to be shown whole, kept for the client that asked."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic

import mcp.types as types

from ..errors import RequestError
from ..loaders.counting import bundled_counter

KEPT_SECONDS = 3_600.0
#: Characters kept of all clients' results together, and of one result.
_MOST_CHARS, _LONGEST = 100_000_000, 50_000_000
_PART = 20_000
_SHOWN = 4_000


@dataclass(slots=True)
class _Stored:
    owner: object
    #: The tools that gave it; all of them must still be permitted when it is read.
    tool_ids: tuple[str, ...]
    #: What the client was permitted when it called.
    permission: object
    text: str
    at: float
    read: int = 0


class ResultStore:
    """The long results of all clients; the oldest is forgotten where there are too many.

    Args:
        most_chars: characters kept together.
        clock: seconds that only grow.
    """

    def __init__(
        self, most_chars: int = _MOST_CHARS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most = most_chars
        self._clock = clock
        self._stored: OrderedDict[str, _Stored] = OrderedDict()
        self._chars = 0

    @property
    def chars(self) -> int:
        """Characters kept."""
        return self._chars

    def add(
        self, owner: object, tool_ids: tuple[str, ...], permission: object, text: str, read: int
    ) -> str:
        """Keep a text, of which the first `read` characters were shown.

        Returns:
            The id by which it is read.
        """
        name = token_hex(6)
        text = text[: min(_LONGEST, self._most)]
        self._stored[name] = _Stored(owner, tool_ids, permission, text, self._clock(), read)
        self._chars += len(text)
        self.sweep()
        return name

    def get(self, owner: object, name: str) -> _Stored | None:
        """A result that this owner stored less than an hour ago."""
        self.sweep()
        stored = self._stored.get(name)
        return stored if stored is not None and stored.owner is owner else None

    def forget(self, owner: object) -> None:
        """Forget what an owner stored."""
        for name in [name for name, one in self._stored.items() if one.owner is owner]:
            self._drop(name)

    def sweep(self) -> None:
        """Delete results that are too old or too large together."""
        old = self._clock() - KEPT_SECONDS
        while self._stored:
            name, one = next(iter(self._stored.items()))
            if one.at >= old and self._chars <= self._most:
                break
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._chars -= len(self._stored.pop(name).text)


class Results:
    """The long results of one client's session.

    Args:
        store: of all clients.
    """

    def __init__(self, store: ResultStore) -> None:
        self._store = store

    def shown(
        self,
        result: types.CallToolResult,
        tool_id: str,
        permission: object,
        *,
        tokens: int,
        chars: int | None = None,
    ) -> types.CallToolResult:
        """The result, or its beginning and an id by which the rest is read.

        Args:
            result: as the server gave it.
            tool_id: the tool that gave it.
            permission: what the client was permitted then.
            tokens: most tokens of a result that is shown whole.
            chars: most characters instead, as the tool's definition says.
        """
        text = _text_of(result)
        if _fits(text, tokens, chars):
            return result
        # Never the whole text, which may be short where the limit is low.
        first = min(_SHOWN, len(text) // 2)
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

    def keep(self, text: str, tool_ids: tuple[str, ...], permission: object) -> str:
        """Store a text that several tools contributed to.

        Args:
            text: the whole.
            tool_ids: the tools.
            permission: what the client was permitted then.

        Returns:
            The id by which it is read, from its beginning.
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
            name: its id.
            first: place of the first character; where the last reading ended, when absent.
            last: place after the last character.
            readable: says of a tool's id, and of what was permitted at the call, whether the
                result may still be read.

        Raises:
            RequestError: nothing is stored under this id that may be read.
        """
        stored = self._store.get(self, name)
        if stored is None or not all(readable(one, stored.permission) for one in stored.tool_ids):
            raise RequestError(f"read_result: no result {name!r:.40}; results are kept for an hour")
        start = stored.read if first is None else min(first, len(stored.text))
        end = min(start + _PART if last is None else max(last, start), start + _PART)
        part = stored.text[start:end]
        stored.read = start + len(part)
        left = len(stored.text) - stored.read
        return part + (f"\n[{left:,} characters left]" if left else "\n[end of the result]")

    def clear(self) -> None:
        """Forget all results."""
        self._store.forget(self)


def _fits(text: str, tokens: int, chars: int | None) -> bool:
    if chars is not None:
        return len(text) <= chars
    # A token is at least a character: most results need no counting.
    return len(text) <= tokens or bundled_counter().count(text[: tokens * 16]) <= tokens


def _text_of(result: types.CallToolResult) -> str:
    """What a model would read of a result: its texts, and its structured form if that says more."""
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    for part in result.content:
        if isinstance(part, types.EmbeddedResource):
            held = part.resource
            texts.append(held.text if isinstance(held, types.TextResourceContents) else held.blob)
    text = "\n".join(texts)
    if result.structured_content is None:
        return text
    structured = json.dumps(result.structured_content, ensure_ascii=False)
    # Most servers give the same twice; then the text is what is meant for a model.
    return (
        text
        if text and len(structured) <= 2 * len(text) + 1_000
        else f"{text}\n{structured}".strip()
    )


def _shape(result: types.CallToolResult) -> str:
    """What kind of value the result is, in a few words."""
    value = result.structured_content
    if not isinstance(value, dict):
        return ""
    keys = ", ".join(str(key)[:40] for key in list(value)[:12])
    return f" Its structured form has the keys: {keys}."
