"""The HTTP client for servers: answers are decoded, bounded in bytes, and repaired.

It also sends the requests of a login. An answer of any type, status or content coding is bounded
after decoding, because a few compressed bytes can become gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio.lowlevel
import httpx2

from ...untrusted import MAX_LOGIN_BYTES, MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES
from ...untrusted.flood_limit import FloodError, FloodLimit
from ...untrusted.json_bytes import JsonRepair, ValueLimit
from ...untrusted.text_bytes import media_type
from .credential_sender import LOGIN_KEY, sending_client
from .masking import CredentialMask
from .server_spec import ServerSpec

#: Bytes of an answer that are read in one turn. Other servers have their turns in between.
_BYTES_PER_TURN = 32_768
#: Most lines and bytes of all event streams of a connection in a minute. A message has up to four
#: lines, and results count too.
_MAX_EVENT_LINES, _MAX_EVENT_BYTES = 120_000, 8 * MAX_MESSAGE_BYTES
_BLANK_LINE = re.compile(rb"\n\n|\r\n\r\n|\r\r")
#: An event stream that the client asked for again counts as so many lines. The SDK reconnects at
#: once if the server wants that, without end, also after the call has timed out.
_LINES_PER_RECONNECTION = 200
#: Seconds in which a server must answer the end of a session.
_SESSION_END_TIMEOUT_S = 5.0


def http_client(
    spec: ServerSpec,
    mask: CredentialMask,
    *,
    timeout: httpx2.Timeout,
    auth: httpx2.Auth | None,
    on_unauthorized: Callable[[], None],
    on_flood: Callable[[FloodError], None],
) -> httpx2.AsyncClient:
    """An HTTP client whose answers are bounded.

    Args:
        spec: the server.
        mask: learns the credentials that are sent.
        timeout: time limits.
        auth: a login; None without one.
        on_unauthorized: called for each answer with the status 401.
        on_flood: called when event streams have sent too much within a minute.
    """
    limit = FloodLimit(
        max_lines=_MAX_EVENT_LINES, max_bytes=_MAX_EVENT_BYTES, subject="event streams"
    )

    async def limit_session_end(request: httpx2.Request) -> None:
        # The end of a session is not waited for without end: the next start waits for it.
        if request.method == "DELETE":
            request.extensions["timeout"] = {
                **request.extensions["timeout"],
                "read": _SESSION_END_TIMEOUT_S,
            }

    async def bound_answer(response: httpx2.Response) -> None:
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            on_unauthorized()
        if _is_event_stream(response):
            stream = _EventStream(response, limit, on_flood)
            if response.request.method == "GET":
                stream.count(_LINES_PER_RECONNECTION, 0)
            _set_stream(response, stream)
        else:
            _set_stream(response, _BoundedStream(response))
        # MCP is UTF-8. A server must not choose another of Python's codecs, such as bz2.
        response.encoding = "utf-8"

    return sending_client(
        spec,
        mask,
        timeout=timeout,
        auth=auth,
        on_request=limit_session_end,
        on_response=bound_answer,
    )


def _is_event_stream(response: httpx2.Response) -> bool:
    """Whether the SDK reads the answer event by event, with a limit of its own for each."""
    request = response.request
    return (
        response.is_success
        and media_type(response.headers.get("content-type", "")) == "text/event-stream"
        and request.method in ("GET", "POST")
        and "text/event-stream" in request.headers.get("accept", "")
    )


class DecodedStream(httpx2.AsyncByteStream):
    """The decoded bytes of an answer, in turns.

    Args:
        response: the answer. Its headers say how it is encoded.
    """

    def __init__(self, response: httpx2.Response) -> None:
        codings = response.headers.get_list("content-encoding", split_commas=True)
        self._coding_count = len(codings)
        self._encoded_answer = httpx2.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._coding_count > 1:
            # Between two codings there may be gigabytes, whatever comes out at the end.
            raise httpx2.StreamError("an answer with more than one content coding")
        async with aclosing(self._encoded_answer.aiter_bytes()) as chunks:
            async for chunk in chunks:
                for start in range(0, len(chunk), _BYTES_PER_TURN):
                    yield chunk[start : start + _BYTES_PER_TURN]
                    await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._encoded_answer.aclose()


async def decode_in_turns(response: httpx2.Response) -> None:
    """Hook of a client: other servers have their turns while an answer is decoded.

    Args:
        response: the answer, which has no content coding afterwards.
    """
    _set_stream(response, DecodedStream(response))


def _set_stream(response: httpx2.Response, stream: httpx2.AsyncByteStream) -> None:
    response.stream = stream
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)


class _BoundedStream(DecodedStream):
    """The decoded and repaired bytes of an answer.

    At most `MAX_MESSAGE_BYTES`, or `MAX_LOGIN_BYTES` for a request of a login.
    """

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response)
        is_login = LOGIN_KEY in response.request.extensions
        self._max_bytes = MAX_LOGIN_BYTES if is_login else MAX_MESSAGE_BYTES
        self._size = 0
        self._values = ValueLimit()

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        repair = JsonRepair()
        async with aclosing(super().__aiter__()) as turns:
            async for turn in turns:
                self._count(turn)
                yield repair.feed(turn)
        yield repair.end()

    def _count(self, turn: bytes) -> None:
        self._size += len(turn)
        if self._size > self._max_bytes:
            raise httpx2.StreamError(f"an answer of more than {self._max_bytes:,} bytes")
        self._count_values(turn)

    def _count_values(self, turn: bytes) -> None:
        self._values.feed(turn)
        if self._values.is_exceeded:
            raise httpx2.StreamError(f"a message of more than {MAX_MESSAGE_VALUES:,} values")


class _EventStream(_BoundedStream):
    """The bytes of an event stream, which may last as long as the connection."""

    def __init__(
        self,
        response: httpx2.Response,
        limit: FloodLimit,
        on_flood: Callable[[FloodError], None],
    ) -> None:
        super().__init__(response)
        self._flood_limit = limit
        self._on_flood = on_flood

    def _count(self, turn: bytes) -> None:
        self.count(turn.count(b"\n") + turn.count(b"\r"), len(turn))
        first, *others = _BLANK_LINE.split(turn)
        self._count_values(first)
        if others:
            # Messages that begin and end in this turn are short.
            self._values.restart()
            self._count_values(others[-1])

    def count(self, lines: int, size: int) -> None:
        """Count lines and bytes of all event streams of the connection.

        Raises:
            StreamError: there were too many within a minute.
        """
        try:
            self._flood_limit.count(lines, size)
        except FloodError as error:
            self._on_flood(error)
            raise httpx2.StreamError(str(error)) from error
