"""How a server behind the gateway is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from .logs import ServerLog
from .orphans import RunningProcesses
from .server_spec import ServerSpec
from .stdio import MOST_BYTES, stdio_transport

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

Noise = Callable[[str], None]
Transport = Callable[[ServerSpec, ServerLog, Noise], AbstractAsyncContextManager[Any]]


def transport_over(processes: RunningProcesses) -> Transport:
    """Opens the transport that a server's configuration asks for.

    Args:
        processes: where the processes of servers are noted while they run.
    """

    def opened(
        spec: ServerSpec, log: ServerLog, noise: Noise
    ) -> AbstractAsyncContextManager[TransportStreams]:
        if spec.transport == "stdio":
            return stdio_transport(spec, log, noise, processes)
        return _over_sse(spec) if spec.transport == "sse" else _over_http(spec)

    return opened


@asynccontextmanager
async def _over_sse(spec: ServerSpec) -> AsyncIterator[TransportStreams]:
    from mcp.client.sse import sse_client

    # The stream is silent between calls, so that only a start and a post can be late.
    async with sse_client(
        spec.url or "",
        headers=spec.plain_headers(),
        timeout=spec.start_timeout_s,
        sse_read_timeout=float("inf"),
        httpx_client_factory=_http_client,
    ) as streams:
        yield streams


@asynccontextmanager
async def _over_http(spec: ServerSpec) -> AsyncIterator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # An answer may take as long as the call, whose own limit counts.
    timeout = httpx2.Timeout(spec.start_timeout_s, read=None)
    async with (
        _http_client(headers=spec.plain_headers(), timeout=timeout) as client,
        streamable_http_client(
            spec.url or "", http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams


def _http_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """A client that refuses an answer of more than `MOST_BYTES`."""
    import httpx2

    async def bounded(response: httpx2.Response) -> None:
        if response.headers.get("content-type", "").startswith("application/json"):
            response.stream = _Bounded(response.stream)

    class _Bounded(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > MOST_BYTES:
                    raise httpx2.StreamError(f"an answer of more than {MOST_BYTES:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    return httpx2.AsyncClient(
        headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [bounded]}
    )
