"""Opens connections to the servers behind the gateway."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp.types as types
from mcp.shared.message import SessionMessage

from ...errors import ConfigError, MissingExtraError
from ...untrusted import MAX_MESSAGE_BYTES
from ...untrusted.flood_limit import FloodError
from ...untrusted.value_count import is_small
from .connection_errors import ConsentNeeded
from .credential_sender import url_without_user
from .masking import CredentialMask
from .message_objects import bounded_message
from .openapi_server import openapi_transport
from .server_log import ServerLog
from .server_process import RunningProcesses, stdio_transport
from .server_spec import ServerSpec

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

_LOG = logging.getLogger("shortlist.gateway")
OnStrayLine = Callable[[str], None]
Transport = Callable[[ServerSpec, ServerLog, OnStrayLine], AbstractAsyncContextManager[Any]]


FindLogin = Callable[[ServerSpec], "httpx2.Auth | None"]


def transport_over(processes: RunningProcesses, *, auth: FindLogin | None = None) -> Transport:
    """A function that opens the transport of a server's configuration.

    Args:
        processes: record of the running processes.
        auth: function that returns what adds credentials to requests; by default the
            stored login.
    """

    def open_transport(
        spec: ServerSpec, log: ServerLog, on_stray_line: OnStrayLine
    ) -> AbstractAsyncContextManager[TransportStreams]:
        mask = CredentialMask(spec)
        if spec.transport == "stdio":
            return _cleaned(stdio_transport(spec, log, on_stray_line, processes), mask)
        if spec.transport == "openapi":
            return _cleaned(openapi_transport(spec, log, mask), mask)
        has_own_credentials = any(name.lower() == "authorization" for name in spec.headers)
        find_login = _no_login if has_own_credentials else auth or _stored_login
        return _cleaned(_open_url(spec, mask, find_login), mask)

    return open_transport


@asynccontextmanager
async def _cleaned(
    transport: AbstractAsyncContextManager[Any], mask: CredentialMask
) -> AsyncIterator[Any]:
    """A transport whose messages have a bounded size and none of the server's credentials."""
    async with transport as (read, write):
        yield _CleanedReader(read, mask), write


class WrappedStream:
    """A stream around another one. Both open and close together."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        """Close the stream."""
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


class _CleanedReader(WrappedStream):
    """A stream of a server's messages, masked and with few objects. Large ones take a thread."""

    def __init__(self, stream: Any, mask: CredentialMask) -> None:
        super().__init__(stream)
        self._mask = mask

    @property
    def last_context(self) -> Any:
        """The context of the last message; None over stdio."""
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._cleaned(await self._stream.__anext__())

    async def _cleaned(self, item: Any) -> Any:
        if not isinstance(item, SessionMessage):
            return item
        message = item.message
        payload = getattr(message, "result", None) or getattr(message, "params", None)
        if not is_small(payload):
            message = await anyio.to_thread.run_sync(self._bounded_and_masked, message)
        elif not self._mask.is_empty:
            message = self._mask.message(message)
        return SessionMessage(message, item.metadata)

    def _bounded_and_masked(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        message = bounded_message(message)
        return message if self._mask.is_empty else self._mask.message(message)


def _no_login(_: ServerSpec) -> None:
    """For a server whose configured header is its login."""


def _stored_login(spec: ServerSpec) -> httpx2.Auth | None:
    from .oauth import stored_login_auth

    try:
        return stored_login_auth(spec)
    except (ConfigError, MissingExtraError) as error:
        # Without a secret store there are no logins.
        _LOG.info("server %r: no login is used: %s", spec.name, error)
        return None


@asynccontextmanager
async def _open_url(
    spec: ServerSpec, mask: CredentialMask, find_login: FindLogin
) -> AsyncIterator[TransportStreams]:
    """The streams of a server over streamable HTTP or SSE."""
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    from .http_client import http_client

    # An answer may take as long as the call, which has its own limit. Between calls there is none.
    timeout = httpx2.Timeout(spec.start_timeout_s, read=None)
    # In a thread: a keyring may wait, and the key of a file of secrets takes a quarter second.
    auth = await anyio.to_thread.run_sync(find_login, spec)
    url = url_without_user(spec.url or "")
    async with AsyncExitStack() as stack:
        record_unauthorized = stack.enter_context(_convert_unauthorized(spec))
        open_client = partial(
            http_client,
            spec,
            mask,
            timeout=timeout,
            auth=auth,
            on_unauthorized=record_unauthorized,
            on_flood=await stack.enter_async_context(_block_ended_by_flood()),
        )
        if spec.transport == "sse":
            # The SDK gives the factory headers, time limits and a login; it has its own.
            streams = sse_client(url, httpx_client_factory=lambda **_: open_client())  # type: ignore[arg-type]
        else:
            client = await stack.enter_async_context(open_client())
            streams = streamable_http_client(
                url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            )
        yield await stack.enter_async_context(streams)


@asynccontextmanager
async def _block_ended_by_flood() -> AsyncIterator[Callable[[FloodError], None]]:
    """A block that a flood ends.

    Yields:
        A function that ends the block with an error.
    """

    async def raise_error(error: FloodError) -> None:
        raise error

    def end(error: FloodError) -> None:
        group.start_soon(raise_error, error)

    async with anyio.create_task_group() as group:
        yield end


@contextmanager
def _convert_unauthorized(spec: ServerSpec) -> Iterator[Callable[[], None]]:
    """Converts a failure after a 401 to `ConsentNeeded`; the SDK's error has no status.

    Yields:
        A function that records a 401.
    """
    is_unauthorized = False

    def record_unauthorized() -> None:
        nonlocal is_unauthorized
        is_unauthorized = True

    try:
        yield record_unauthorized
    except Exception as error:
        if is_unauthorized:
            raise ConsentNeeded(spec.name) from error
        raise
