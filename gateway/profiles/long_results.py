"""Keeps results within a client's limits, and stores long texts for the client that made the call.

Text has a limit in tokens, images and sounds one in bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import token_hex
from threading import RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import mcp.types as types

from ...errors import RequestError
from ...loaders.counting import bundled_counter

if TYPE_CHECKING:
    from ...retrieval.postgres.stored_texts import StoredTexts

#: Seconds after which a stored result is deleted.
STORED_SECONDS = 3_600.0
#: Most characters of all results in memory together, and of one stored result.
_MAX_STORED_CHARS, _MAX_RESULT_CHARS = 100_000_000, 50_000_000
#: Characters of a part of a long result, for each token of its limit. A part is what is shown of it
#: at once: its beginning in the answer to a call, or one answer of `read_result`.
_PART_CHARS_PER_TOKEN = 2
#: Most places that a search in a result shows, and the lines and characters around each.
_MAX_PLACES, _LINES_AROUND, _CHARS_AROUND = 20, 2, 300
#: A text with more characters for each token of its limit is not counted: it is too long.
_MAX_CHARS_PER_TOKEN = 16
#: Most images and sounds of one result, and most characters of a media type and of an address.
_MAX_MEDIA, _MAX_MEDIA_TYPE_CHARS, _MAX_URI_CHARS = 100, 100, 4_096
#: The type of every result that is no question; a server may write any text there.
_COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class ResultSource:
    """What a result came from. It must still be permitted when the result is read.

    Args:
        tool_ids: ids of the called tools; empty for a resource or a prompt.
        profile_fingerprint: fingerprint of the client's profile at the time of the request.
        server: name of the server whose resource or prompt it is; "" for tools.
    """

    tool_ids: tuple[str, ...]
    profile_fingerprint: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A long result.

    Args:
        text: the text, cut if it is longer than the store permits.
        source: what it came from.
        read_chars: number of characters that the client has seen, from the beginning.
    """

    text: str
    source: ResultSource
    read_chars: int


class ResultStore(Protocol):
    """The long results of all clients, for an hour at most. Each belongs to an owner, a session."""

    def add(self, owner: object, result: StoredResult) -> str:
        """Store a result, and return the id to read it."""
        ...

    def get(self, owner: object, result_id: str) -> StoredResult | None:
        """A result of this owner that is less than an hour old; None if there is none."""
        ...

    def set_read_chars(self, owner: object, result_id: str, read_chars: int) -> None:
        """Replace the number of characters that the client has seen."""
        ...

    def delete_all(self, owner: object) -> None:
        """Delete the results of an owner whose session has ended."""
        ...


@dataclass(frozen=True, slots=True)
class _MemoryRow:
    """A result in memory, with its owner and the seconds of the store's clock when it came."""

    owner: object
    stored_at: float
    result: StoredResult


class ResultMemory(ResultStore):
    """Long results in memory. Thread-safe. If there are too many, the oldest are deleted.

    Args:
        max_chars: most characters of all results together.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self, max_chars: int = _MAX_STORED_CHARS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._max_chars = max_chars
        self._clock = clock
        self._rows: OrderedDict[str, _MemoryRow] = OrderedDict()
        self._chars = 0
        self._lock = RLock()

    @property
    def chars(self) -> int:
        """Number of stored characters."""
        return self._chars

    def add(self, owner: object, result: StoredResult) -> str:
        """See `ResultStore`."""
        result_id = token_hex(6)
        text = result.text[: min(_MAX_RESULT_CHARS, self._max_chars)]
        with self._lock:
            self._rows[result_id] = _MemoryRow(owner, self._clock(), replace(result, text=text))
            self._chars += len(text)
            self.sweep()
        return result_id

    def get(self, owner: object, result_id: str) -> StoredResult | None:
        """See `ResultStore`."""
        with self._lock:
            self.sweep()
            row = self._rows.get(result_id)
        return row.result if row is not None and row.owner is owner else None

    def set_read_chars(self, owner: object, result_id: str, read_chars: int) -> None:
        """See `ResultStore`."""
        with self._lock:
            if (result := self.get(owner, result_id)) is not None:
                result = replace(result, read_chars=read_chars)
                self._rows[result_id] = replace(self._rows[result_id], result=result)

    def delete_all(self, owner: object) -> None:
        """See `ResultStore`."""
        with self._lock:
            for result_id in [key for key, row in self._rows.items() if row.owner is owner]:
                self._delete(result_id)

    def sweep(self) -> None:
        """Delete results that are too old, and the oldest ones if there are too many characters."""
        oldest = self._clock() - STORED_SECONDS
        with self._lock:
            while self._rows:
                result_id, row = next(iter(self._rows.items()))
                if row.stored_at >= oldest and self._chars <= self._max_chars:
                    break
                self._delete(result_id)

    def _delete(self, result_id: str) -> None:
        self._chars -= len(self._rows.pop(result_id).result.text)


class SharedResults(ResultStore):
    """Long results that all replicas of a gateway read. An owner is a text.

    Args:
        state: texts that all replicas share.
    """

    def __init__(self, state: StoredTexts) -> None:
        self._state = state

    def add(self, owner: object, result: StoredResult) -> str:
        """See `ResultStore`."""
        result_id = token_hex(6)
        key = _result_key(owner, result_id)
        source = result.source
        row = json.dumps(
            [source.tool_ids, source.profile_fingerprint, source.server, result.read_chars]
        )
        text = json.dumps(result.text[:_MAX_RESULT_CHARS])
        self._state.change("result", key, lambda _: text, kept_s=STORED_SECONDS)
        self._state.change("result_source", key, lambda _: row, kept_s=STORED_SECONDS)
        return result_id

    def get(self, owner: object, result_id: str) -> StoredResult | None:
        """See `ResultStore`."""
        key = _result_key(owner, result_id)
        row, text = self._state.read("result_source", key), self._state.read("result", key)
        if row is None or text is None:
            return None
        tool_ids, profile_fingerprint, server, read_chars = json.loads(row)
        source = ResultSource(
            tool_ids=tuple(tool_ids), profile_fingerprint=profile_fingerprint, server=server
        )
        return StoredResult(text=json.loads(text), source=source, read_chars=read_chars)

    def set_read_chars(self, owner: object, result_id: str, read_chars: int) -> None:
        """See `ResultStore`."""

        def changed(row: str | None) -> str | None:
            return None if row is None else json.dumps([*json.loads(row)[:3], read_chars])

        key = _result_key(owner, result_id)
        self._state.change("result_source", key, changed, kept_s=STORED_SECONDS)

    def delete_all(self, owner: object) -> None:
        """Nothing: a conversation of several replicas has no end, and its results end by time."""


def _result_key(owner: object, result_id: str) -> str:
    # The id is not in the database, so that who reads the database cannot use it.
    return hashlib.sha256(f"{owner} {result_id}".encode("utf-8", "replace")).hexdigest()


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

    @property
    def part_chars(self) -> int:
        """Most characters of a long result that are shown at once."""
        part_chars = self.tokens * _PART_CHARS_PER_TOKEN
        return part_chars if self.chars is None else min(part_chars, self.chars)

    def fits(self, text: str) -> bool:
        """Whether a text is within the limit."""
        if self.chars is not None:
            return len(text) <= self.chars
        # A token has at least one character, so most results need no counting. A text with more
        # than 16 characters a token is mostly spaces; it is not counted, because its length counts.
        if len(text) <= self.tokens:
            return True
        return len(text) <= self.tokens * _MAX_CHARS_PER_TOKEN and (
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
        source: ResultSource,
        limits: ResultLimits,
    ) -> types.CallToolResult:
        """The whole result, or its beginning and an id to read the rest.

        Args:
            result: the server's result.
            source: the called tool, or the server of a prompt.
            limits: limits of the result.
        """
        content = _with_short_addresses(_limit_media(result.content, limits.media_bytes))
        if content is not result.content:
            result = result.model_copy(update={"content": content})
        if result.result_type != _COMPLETE:
            result = result.model_copy(update={"result_type": _COMPLETE})
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
        beginning, note = self._store_rest(text, source, limits)
        return types.CallToolResult(
            content=[
                types.TextContent(type="text", text=beginning),
                types.TextContent(type="text", text=note.format(_structure_note(result))),
                *(_without_meta(part) for part in result.content if _media(part) is not None),
            ],
            is_error=result.is_error,
        )

    def shorten_read(
        self,
        result: types.ReadResourceResult,
        source: ResultSource,
        limits: ResultLimits,
    ) -> types.ReadResourceResult:
        """The whole content of a resource, or its beginning and an id to read the rest.

        Args:
            result: the server's answer, with the addresses for the client.
            source: the resource's server.
            limits: limits of the result. Its binary content has the limit of images.
        """
        contents = [
            part.model_copy(update={"uri": part.uri[:_MAX_URI_CHARS]}) for part in result.contents
        ]
        result = result.model_copy(update={"contents": contents, "result_type": _COMPLETE})
        texts: list[types.TextResourceContents] = []
        blobs: list[types.TextResourceContents | types.BlobResourceContents] = []
        used = 0
        for part in result.contents:
            if isinstance(part, types.TextResourceContents):
                texts.append(part)
            elif (
                used + _byte_count(part.blob) <= limits.media_bytes
                and len(blobs) < _MAX_MEDIA
                and len(part.mime_type or "") <= _MAX_MEDIA_TYPE_CHARS
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
        beginning, note = self._store_rest(text, source, limits)
        shown = types.TextResourceContents(uri=texts[0].uri, text=f"{beginning}\n{note.format('')}")
        return result.model_copy(update={"contents": [shown, *blobs]})

    def _store_rest(self, text: str, source: ResultSource, limits: ResultLimits) -> tuple[str, str]:
        """Store a text. Returns its beginning, and a format of the note on how to read on."""
        # Never the whole text, which may be short if the limit is low.
        shown_chars = min(limits.part_chars, len(text) // 2)
        result_id = self._store.add(
            self._owner, StoredResult(text=text, source=source, read_chars=shown_chars)
        )
        request_count = -(-(len(text) - shown_chars) // limits.part_chars)
        requests = "one request" if request_count == 1 else f"{request_count:,} requests"
        return text[:shown_chars], (
            f"[{len(text):,} characters, of which the first {shown_chars:,} are above. "
            f'Read on with read_result {{{{"id": "{result_id}"}}}}: the rest takes {requests}. '
            "Better call the tool with a filter, or give read_result a text to find.{}]"
        )

    def store(self, text: str, source: ResultSource) -> str:
        """Store a text with results of several tools, and return the id to read it."""
        return self._store.add(self._owner, StoredResult(text=text, source=source, read_chars=0))

    def read(
        self,
        result_id: str,
        first: int | None = None,
        last: int | None = None,
        *,
        text_to_find: str | None = None,
        max_chars: int,
        may_read: Callable[[ResultSource], bool],
    ) -> str:
        """A part of a stored result, or the places of a text in it.

        Args:
            result_id: id of the result.
            first: index of the first character; by default, the end of the last part.
            last: index after the last character.
            text_to_find: a text whose places are shown with the lines around each. Letter case does
                not count.
            max_chars: most characters of the part.
            may_read: whether a result from this source may still be read.

        Raises:
            RequestError: there is no such result, or it may not be read.
        """
        stored = self._store.get(self._owner, result_id)
        if stored is None or not may_read(stored.source):
            raise RequestError(
                f"read_result: no result {result_id!r:.40}; results are deleted after an hour: "
                "call the tool again"
            )
        if text_to_find:
            return _places_of(text_to_find, stored.text, max_chars)
        start = stored.read_chars if first is None else min(first, len(stored.text))
        end = min(start + max_chars if last is None else max(last, start), start + max_chars)
        part = stored.text[start:end]
        self._store.set_read_chars(self._owner, result_id, start + len(part))
        remaining = len(stored.text) - start - len(part)
        note = f"{remaining:,} characters left" if remaining else "end of the result"
        if last is not None and last > end:
            note = f"characters {start:,} to {end:,}; an answer has at most {max_chars:,}; {note}"
        return f"{part}\n[{note}]"

    def clear(self) -> None:
        """Delete all results."""
        self._store.delete_all(self._owner)


def _places_of(wanted: str, text: str, max_chars: int) -> str:
    """The places of a text in another one, each with the lines around it.

    Args:
        wanted: text to find; letter case does not count.
        text: where it is searched.
        max_chars: most characters of all places.
    """
    matches = list(re.finditer(re.escape(wanted), text, re.IGNORECASE))
    places: list[str] = []
    shown_until, shown_count, left_chars = 0, 0, max_chars
    for match in matches:
        if match.start() >= shown_until:
            start, end = _lines_around(text, match.start(), match.end())
            start = max(start, shown_until)
            if len(places) == _MAX_PLACES or end - start > left_chars:
                break
            places.append(f"[at character {match.start():,}]\n{text[start:end]}")
            shown_until, left_chars = end, left_chars - (end - start)
        shown_count += 1
    if not matches:
        return f"[{wanted!r:.80} is not in the {len(text):,} characters of the result]"
    more = "" if shown_count == len(matches) else f", of which the first {shown_count:,} are above"
    count = "1 place" if len(matches) == 1 else f"{len(matches):,} places"
    return "\n\n".join([*places, f"[{count}{more}]"])


def _lines_around(text: str, start: int, end: int) -> tuple[int, int]:
    """The part of a text with some lines before and after a place, and not too many characters."""
    first, last = max(0, start - _CHARS_AROUND), min(len(text), end + _CHARS_AROUND)
    before, after = text[first:start].split("\n"), text[end:last].split("\n")
    if len(before) > _LINES_AROUND + 1:
        first = start - len("\n".join(before[-_LINES_AROUND - 1 :]))
    if len(after) > _LINES_AROUND + 1:
        last = end + len("\n".join(after[: _LINES_AROUND + 1]))
    return first, last


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


def _limit_media(content: list[types.ContentBlock], max_bytes: int) -> list[types.ContentBlock]:
    """The content with as many images and sounds as fit. A sentence replaces the others.

    Args:
        content: content of a result.
        max_bytes: most bytes of all images and sounds together.
    """
    kept: list[types.ContentBlock] = []
    used, media_count, dropped = 0, 0, 0
    for part in content:
        if (media := _media(part)) is None:
            kept.append(part)
            continue
        size = _byte_count(media)
        if used + size > max_bytes or media_count == _MAX_MEDIA or not _has_short_type(part):
            dropped += 1
            continue
        used, media_count = used + size, media_count + 1
        kept.append(part)
    if dropped:
        kept.append(types.TextContent(type="text", text=_left_out_media(dropped, max_bytes)))
    return kept if dropped else content


def _with_short_addresses(content: list[types.ContentBlock]) -> list[types.ContentBlock]:
    """The content without media types and addresses that are longer than any real one."""
    shortened = [_with_short_address(part) for part in content]
    is_same = all(part is old for part, old in zip(shortened, content, strict=True))
    return content if is_same else shortened


def _with_short_address(part: types.ContentBlock) -> types.ContentBlock:
    if not isinstance(part, types.EmbeddedResource):
        return part
    resource = part.resource
    changes: dict[str, Any] = {}
    if len(resource.uri) > _MAX_URI_CHARS:
        changes["uri"] = resource.uri[:_MAX_URI_CHARS]
    if not _has_short_type(part):
        changes["mime_type"] = None
    if not changes:
        return part
    return part.model_copy(update={"resource": resource.model_copy(update=changes)})


def _left_out_media(count: int, max_bytes: int) -> str:
    """The sentence in place of images and sounds that are too large."""
    parts = "1 image or sound is" if count == 1 else f"{count:,} images or sounds are"
    return f"[{parts} left out: the limit of the gateway is {max_bytes:,} bytes (`media_bytes`)]"


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
    return len(getattr(resource, "mime_type", None) or "") <= _MAX_MEDIA_TYPE_CHARS


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


def _structure_note(result: types.CallToolResult) -> str:
    """A sentence with the keys of the structured form; empty if it has none."""
    value = result.structured_content
    if not isinstance(value, dict):
        return ""
    keys = ", ".join(str(key)[:40] for key in list(value)[:12])
    return f" Its structured form has the keys: {keys}."
