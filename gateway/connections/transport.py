"""Opens connections to the servers behind the gateway."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ...errors import ConfigError, MissingExtraError
from .connection_errors import ConsentNeeded, FloodError
from .openapi_server import openapi_transport
from .server_log import ServerLog
from .server_process import MAX_MESSAGE_BYTES, RunningProcesses, stdio_transport
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
        auth: function that returns what adds credentials to requests; by default the login in the
            keyring.
    """

    def open_transport(
        spec: ServerSpec, log: ServerLog, on_stray_line: OnStrayLine
    ) -> AbstractAsyncContextManager[TransportStreams]:
        if spec.transport == "stdio":
            return stdio_transport(spec, log, on_stray_line, processes)
        if spec.transport == "openapi":
            return openapi_transport(spec, log)
        has_own_credentials = any(name.lower() == "authorization" for name in spec.headers)
        login = None if has_own_credentials else (auth or _stored_login)(spec)
        return _open_sse(spec, login) if spec.transport == "sse" else _open_http(spec, login)

    return open_transport


def _stored_login(spec: ServerSpec) -> httpx2.Auth | None:
    from .oauth import stored_login_auth

    try:
        return stored_login_auth(spec)
    except (ConfigError, MissingExtraError) as error:
        # Without a keyring there are no logins.
        _LOG.info("server %r: no login is used: %s", spec.name, error)
        return None


@asynccontextmanager
async def _open_sse(spec: ServerSpec, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    from mcp.client.sse import sse_client

    from .http_client import http_client

    # Between calls the stream has no data. So only the start and posts have a time limit.
    with _convert_unauthorized(spec) as record_unauthorized:
        async with (
            _block_ended_by_flood() as end_by_flood,
            sse_client(
                spec.url or "",
                headers=spec.revealed_headers(),
                timeout=spec.start_timeout_s,
                sse_read_timeout=float("inf"),
                auth=auth,
                httpx_client_factory=partial(
                    http_client, on_unauthorized=record_unauthorized, on_flood=end_by_flood
                ),
            ) as streams,
        ):
            yield streams


@asynccontextmanager
async def _open_http(spec: ServerSpec, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from .http_client import http_client

    # An answer may take as long as the call, which has its own limit.
    timeout = httpx2.Timeout(spec.start_timeout_s, read=None)
    with _convert_unauthorized(spec) as record_unauthorized:
        async with (
            _block_ended_by_flood() as end_by_flood,
            http_client(
                spec.revealed_headers(),
                timeout,
                auth,
                on_unauthorized=record_unauthorized,
                on_flood=end_by_flood,
            ) as client,
            streamable_http_client(
                spec.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams


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
