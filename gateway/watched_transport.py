"""A transport whose messages are read on their way, and whose end is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage

from .pages import Pages
from .question_causes import QuestionCauses


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[Any],
    pages: Pages,
    causes: QuestionCauses,
    ended: Callable[[], None],
) -> AsyncIterator[tuple[_Reader, _Writer]]:
    """The streams of a transport. All messages pass `pages` and `causes`.

    Args:
        transport: the transport to a server.
        pages: removes malformed tools.
        causes: records the calls.
        ended: called when the connection has ended.
    """
    async with transport as (read, write):
        yield _Reader(read, pages, causes, ended), _Writer(write, pages, causes)


class _Wrapped:
    """A stream around another one. Both close together."""

    def __init__(self, stream: Any, pages: Pages, causes: QuestionCauses) -> None:
        self._stream = stream
        self._pages = pages
        self._causes = causes

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stream.__aexit__(kind, error, traceback)


class _Writer(_Wrapped):
    """Receives the messages of the MCP session for the server."""

    async def send(self, item: SessionMessage) -> None:
        self._pages.sent(item.message)
        self._causes.sent(item.message)
        await self._stream.send(item)


class _Reader(_Wrapped):
    """Gives the messages of the server to the MCP session.

    Attributes:
        last_context: the context in which the session handles the last message; None for any.
    """

    def __init__(
        self, stream: Any, pages: Pages, causes: QuestionCauses, ended: Callable[[], None]
    ) -> None:
        super().__init__(stream, pages, causes)
        self._ended = ended
        self.last_context: Context | None = None

    async def receive(self) -> Any:
        try:
            return self._seen(await self._stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._ended()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._seen(await self._stream.__anext__())
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._ended()
            raise

    def _seen(self, item: Any) -> Any:
        # Only the transports over HTTP have it.
        self.last_context = getattr(self._stream, "last_context", None)
        if isinstance(item, SessionMessage):
            self._pages.received(item.message)
            self.last_context = self._causes.received(item.message, self.last_context)
        return item
