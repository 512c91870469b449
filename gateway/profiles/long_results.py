"""Keeps results within a client's limits, and stores long texts for the client that made the call.

Text has a limit in tokens, images and sounds one in bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from threading import RLock
from time import monotonic
from typing import Any, Protocol

import mcp.types as types

from ...errors import RequestError
from ...loaders.counting import bundled_counter
from ..upstream.shared_state import SharedState

STORED_SECONDS = 3_600.0
#: Most characters of all stored results together, and of one result.
_MOST_CHARS, _LONGEST = 100_000_000, 50_000_000
_PART_CHARS = 20_000
_SHOWN_CHARS = 4_000
#: Most characters of text for each token of a limit.
_TOKEN_CHARS = 16
#: Most images and sounds of one result, and most characters of the name of their type.
_MOST_MEDIA, _MIME_CHARS = 100, 100


@dataclass(slots=True)
class StoredResult:
    """A long result, whose it is, and who may read it."""

    owner: object
    #: The tools that gave it. All of them must still be permitted to read it.
    tool_ids: tuple[str, ...]
    #: Fingerprint of the client's profile at the time of the call.
    permission: str
    text: str
    stored_at: float
    #: The server whose resource or prompt it is, which must still be permitted; "" for tools.
    server: str
    #: Number of characters that the client has read.
    read_chars: int = 0


class ResultStore(Protocol):
    """The long results of all clients, for an hour at most."""

    def add(
        self,
        owner: object,
        tool_ids: tuple[str, ...],
        permission: str,
        text: str,
        read_chars: int,
        server: str = "",
    ) -> str:
        """Store a text. The client has already seen its first `read_chars` characters.

        Returns:
            The id to read it.
        """
        ...

    def get(self, owner: object, name: str) -> StoredResult | None:
        """A result of this owner that is less than an hour old; None if there is none."""
        ...

    def note_read(self, owner: object, name: str, read_chars: int) -> None:
        """Note how many characters the client has read."""
        ...

    def delete_all(self, owner: object) -> None:
        """Delete the results of an owner whose session has ended."""
        ...


class ResultMemory:
    """Long results in memory. Thread-safe. If there are too many, the oldest are deleted.

    Args:
        most_chars: most characters of all results together.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, most_chars: int = _MOST_CHARS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most_chars = most_chars
        self._clock = clock
        self._stored: OrderedDict[str, StoredResult] = OrderedDict()
        self._chars = 0
        self._lock = RLock()

    @property
    def chars(self) -> int:
        """Number of stored characters."""
        return self._chars

    def add(
        self,
        owner: object,
        tool_ids: tuple[str, ...],
        permission: str,
        text: str,
        read_chars: int,
        server: str = "",
    ) -> str:
        """Store a text; see `ResultStore`."""
        name = token_hex(6)
        text = text[: min(_LONGEST, self._most_chars)]
        with self._lock:
            self._stored[name] = StoredResult(
                owner, tool_ids, permission, text, self._clock(), server, read_chars
            )
            self._chars += len(text)
            self.sweep()
        return name

    def get(self, owner: object, name: str) -> StoredResult | None:
        """A result of this owner that is less than an hour old; None if there is none."""
        with self._lock:
            self.sweep()
            stored = self._stored.get(name)
        return stored if stored is not None and stored.owner is owner else None

    def note_read(self, owner: object, name: str, read_chars: int) -> None:
        """Note how many characters the client has read."""
        if (stored := self.get(owner, name)) is not None:
            stored.read_chars = read_chars

    def delete_all(self, owner: object) -> None:
        """Delete the results of an owner."""
        with self._lock:
            names = [name for name, result in self._stored.items() if result.owner is owner]
            for name in names:
                self._delete(name)

    def sweep(self) -> None:
        """Delete results that are too old, and the oldest ones if there are too many characters."""
        oldest = self._clock() - STORED_SECONDS
        with self._lock:
            while self._stored:
                name, result = next(iter(self._stored.items()))
                if result.stored_at >= oldest and self._chars <= self._most_chars:
                    break
                self._delete(name)

    def _delete(self, name: str) -> None:
        self._chars -= len(self._stored.pop(name).text)


class SharedResults:
    """Long results that all replicas of a gateway read. An owner is a text.

    Args:
        state: state of all replicas.
    """

    def __init__(self, state: SharedState) -> None:
        self._state = state

    def add(
        self,
        owner: object,
        tool_ids: tuple[str, ...],
        permission: str,
        text: str,
        read_chars: int,
        server: str = "",
    ) -> str:
        """Store a text; see `ResultStore`."""
        name = token_hex(6)
        key = _result_key(owner, name)
        row = json.dumps([tool_ids, permission, server, read_chars])
        whole = json.dumps(text[:_LONGEST])
        self._state.change("result", key, lambda _: whole, kept_s=STORED_SECONDS)
        self._state.change("result_source", key, lambda _: row, kept_s=STORED_SECONDS)
        return name

    def get(self, owner: object, name: str) -> StoredResult | None:
        """A result of this owner that is less than an hour old; None if there is none."""
        key = _result_key(owner, name)
        row, text = self._state.read("result_source", key), self._state.read("result", key)
        if row is None or text is None:
            return None
        tool_ids, permission, server, read_chars = json.loads(row)
        return StoredResult(
            owner, tuple(tool_ids), permission, json.loads(text), 0.0, server, read_chars
        )

    def note_read(self, owner: object, name: str, read_chars: int) -> None:
        """Note how many characters the client has read."""

        def noted(row: str | None) -> str | None:
            return None if row is None else json.dumps([*json.loads(row)[:3], read_chars])

        self._state.change("result_source", _result_key(owner, name), noted, kept_s=STORED_SECONDS)

    def delete_all(self, owner: object) -> None:
        """Nothing: a conversation of several replicas has no end, and its results end by time."""


def _result_key(owner: object, name: str) -> str:
    # The id is not in the database, so that who reads the database cannot use it.
    return hashlib.sha256(f"{owner} {name}".encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """The limits of one result.

    Args:
        tokens: most tokens of its text that is returned whole. The structured form may have as
            many, and so may `_meta`.
        media_bytes: most bytes of its images and sounds together.
        chars: limit in characters from the tool's definition, which replaces `tokens`.
    """

    tokens: int
    media_bytes: int
    chars: int | None = None

    def fits(self, text: str) -> bool:
        """Whether a text is within the limit."""
        if self.chars is not None:
            return len(text) <= self.chars
        # A token has at least one character, so most results need no counting. A text with more
        # than 16 characters a token is mostly spaces; it is not counted, because its length counts.
        if len(text) <= self.tokens:
            return True
        return len(text) <= self.tokens * _TOKEN_CHARS and (
            bundled_counter().count(text) <= self.tokens
        )


class SessionResults:
    """The long results of one client's session.

    Args:
        store: results of all clients.
        owner: names the session in the store; by default, this object does.
    """

    def __init__(self, store: ResultStore, owner: str | None = None) -> None:
        self._store = store
        self._owner: object = self if owner is None else owner

    def shorten(
        self,
        result: types.CallToolResult,
        tool_ids: tuple[str, ...],
        permission: str,
        limits: ResultLimits,
        *,
        server: str = "",
    ) -> types.CallToolResult:
        """The whole result, or its beginning and an id to read the rest.

        Args:
            result: the server's result.
            tool_ids: id of the called tool; empty for a prompt.
            permission: fingerprint of the client's profile at the time of the call.
            limits: limits of the result.
            server: the server of a prompt.
        """
        content = _limit_media(result.content, limits.media_bytes)
        if content is not result.content:
            result = result.model_copy(update={"content": content})
        result = _without_long_meta(result, limits)
        text = _text_of(result.content)
        structured = ""
        if result.structured_content is not None:
            structured = _json(result.structured_content)
        if limits.fits(text) and limits.fits(structured):
            return result
        # Most servers give the same content twice. Then the text is used.
        if not text or len(structured) > 2 * len(text) + 1_000 or limits.fits(text):
            text = f"{text}\n{structured}".strip()
        beginning, note = self._store_rest(text, tool_ids, permission, server)
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=beginning),
                types.TextContent(type="text", text=note.format(_shape(result))),
                *(_without_meta(part) for part in result.content if _media(part) is not None),
            ],
            is_error=result.is_error,
        )

    def shorten_read(
        self,
        result: types.ReadResourceResult,
        server: str,
        permission: str,
        limits: ResultLimits,
    ) -> types.ReadResourceResult:
        """The whole content of a resource, or its beginning and an id to read the rest.

        Args:
            result: the server's answer, with the addresses for the client.
            server: name of the server.
            permission: fingerprint of the client's profile at the time of the request.
            limits: limits of the result. Its binary content has the limit of images.
        """
        texts: list[types.TextResourceContents] = []
        blobs: list[types.TextResourceContents | types.BlobResourceContents] = []
        used = 0
        for part in result.contents:
            if isinstance(part, types.TextResourceContents):
                texts.append(part)
            elif (
                used + _byte_count(part.blob) <= limits.media_bytes
                and len(blobs) < _MOST_MEDIA
                and len(part.mime_type or "") <= _MIME_CHARS
            ):
                used += _byte_count(part.blob)
                blobs.append(part)
        dropped = len(result.contents) - len(texts) - len(blobs)
        if dropped:
            sentence = _left_out_media(dropped, limits.media_bytes)
            texts.append(types.TextResourceContents(uri=result.contents[0].uri, text=sentence))
        metas = [result.meta, *(part.meta for part in result.contents)]
        if any(metas) and not limits.fits(_json(metas)):
            texts = [part.model_copy(update={"meta": None}) for part in texts]
            blobs = [part.model_copy(update={"meta": None}) for part in blobs]
            result = result.model_copy(update={"meta": None})
        text = "\n".join(part.text for part in texts)
        if len(texts) > 1:
            text = "\n".join(f"{part.uri}\n{part.text}" for part in texts)
        if limits.fits(text + "".join(part.mime_type or "" for part in texts)):
            return result.model_copy(update={"contents": [*texts, *blobs]})
        beginning, note = self._store_rest(text, (), permission, server)
        shown = types.TextResourceContents(uri=texts[0].uri, text=f"{beginning}\n{note.format('')}")
        return result.model_copy(update={"contents": [shown, *blobs]})

    def _store_rest(
        self, text: str, tool_ids: tuple[str, ...], permission: str, server: str
    ) -> tuple[str, str]:
        """The beginning of a text, and how to read on, with a place for a remark."""
        # Never the whole text, which may be short if the limit is low.
        first = min(_SHOWN_CHARS, len(text) // 2)
        name = self._store.add(self._owner, tool_ids, permission, text, first, server)
        return text[:first], (
            f"[{len(text):,} characters, of which the first {first:,} are above. "
            f'Read on with read_result {{{{"id": "{name}"}}}}.{{}}]'
        )

    def store(self, text: str, tool_ids: tuple[str, ...], permission: str) -> str:
        """Store a text with results of several tools.

        Args:
            text: the whole text.
            tool_ids: ids of the tools.
            permission: fingerprint of the client's profile at the time of the call.

        Returns:
            The id to read it, from its beginning.
        """
        return self._store.add(self._owner, tool_ids, permission, text, 0)

    def read(
        self,
        name: str,
        first: int | None = None,
        last: int | None = None,
        *,
        readable: Callable[[tuple[str, ...], str, str], bool],
    ) -> str:
        """A part of a stored result.

        Args:
            name: id of the result.
            first: index of the first character; by default, the end of the last part.
            last: index after the last character.
            readable: function of the tools' ids, the server and the profile at the call: whether
                the result may still be read.

        Raises:
            RequestError: there is no such result, or it may not be read.
        """
        stored = self._store.get(self._owner, name)
        if stored is None or not readable(stored.tool_ids, stored.server, stored.permission):
            raise RequestError(
                f"read_result: no result {name!r:.40}; results are deleted after an hour: call "
                "the tool again"
            )
        start = stored.read_chars if first is None else min(first, len(stored.text))
        end = min(start + _PART_CHARS if last is None else max(last, start), start + _PART_CHARS)
        part = stored.text[start:end]
        self._store.note_read(self._owner, name, start + len(part))
        remaining = len(stored.text) - start - len(part)
        return part + (
            f"\n[{remaining:,} characters left]" if remaining else "\n[end of the result]"
        )

    def clear(self) -> None:
        """Delete all results."""
        self._store.delete_all(self._owner)


def _without_long_meta(result: types.CallToolResult, limits: ResultLimits) -> types.CallToolResult:
    """The result without `_meta` and annotations if they are longer than a result may be."""
    metas: list[Any] = [result.meta]
    for part in result.content:
        metas.append(part.meta)
        if part.annotations is not None:
            metas.append(part.annotations.model_dump(mode="json"))
        if isinstance(part, types.EmbeddedResource):
            metas.append(part.resource.meta)
    if not any(metas) or limits.fits(_json(metas)):
        return result
    return result.model_copy(
        update={"meta": None, "content": [_without_meta(part) for part in result.content]}
    )


def _without_meta(part: types.ContentBlock) -> types.ContentBlock:
    changes: dict[str, Any] = {"meta": None, "annotations": None}
    if isinstance(part, types.EmbeddedResource):
        changes["resource"] = part.resource.model_copy(update={"meta": None})
    return part.model_copy(update=changes)


def _limit_media(content: list[types.ContentBlock], most_bytes: int) -> list[types.ContentBlock]:
    """The content with as many images and sounds as fit. A sentence replaces the others.

    Args:
        content: content of a result.
        most_bytes: most bytes of all images and sounds together.
    """
    kept: list[types.ContentBlock] = []
    used, media_count, dropped = 0, 0, 0
    for part in content:
        if (media := _media(part)) is None:
            kept.append(part)
            continue
        size = _byte_count(media)
        if used + size > most_bytes or media_count == _MOST_MEDIA or not _has_short_type(part):
            dropped += 1
            continue
        used, media_count = used + size, media_count + 1
        kept.append(part)
    if dropped:
        kept.append(types.TextContent(type="text", text=_left_out_media(dropped, most_bytes)))
    return kept if dropped else content


def _left_out_media(count: int, most_bytes: int) -> str:
    """The sentence in place of images and sounds that are too large."""
    parts = "1 image or sound is" if count == 1 else f"{count:,} images or sounds are"
    return f"[{parts} left out: the limit of the gateway is {most_bytes:,} bytes (`media_bytes`)]"


def _byte_count(data: str) -> int:
    """Number of bytes that a base64 text encodes."""
    return len(data) * 3 // 4


def _media(part: types.ContentBlock) -> str | None:
    """The base64 text of an image or a sound; None for other content."""
    if isinstance(part, types.ImageContent | types.AudioContent):
        return part.data
    if isinstance(part, types.EmbeddedResource) and isinstance(
        part.resource, types.BlobResourceContents
    ):
        media_type = part.resource.mime_type or ""
        return part.resource.blob if media_type.startswith(("image/", "audio/")) else None
    return None


def _has_short_type(part: types.ContentBlock) -> bool:
    resource = part.resource if isinstance(part, types.EmbeddedResource) else part
    return len(getattr(resource, "mime_type", None) or "") <= _MIME_CHARS


def _text_of(content: list[types.ContentBlock]) -> str:
    """Everything in the content of a result that is text. Links are one line each."""
    texts = []
    for part in content:
        if isinstance(part, types.TextContent):
            texts.append(part.text)
        elif isinstance(part, types.ResourceLink):
            link = part.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
            texts.append(_json(link))
        elif isinstance(part, types.EmbeddedResource):
            texts.append(part.resource.uri)
            if isinstance(part.resource, types.TextResourceContents):
                texts.append(part.resource.text)
            elif _media(part) is None:
                texts.append(part.resource.blob)
    return "\n".join(texts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shape(result: types.CallToolResult) -> str:
    """A short description of a result's kind of value."""
    value = result.structured_content
    if not isinstance(value, dict):
        return ""
    keys = ", ".join(str(key)[:40] for key in list(value)[:12])
    return f" Its structured form has the keys: {keys}."
