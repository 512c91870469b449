"""How a server behind the gateway is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import IO, Any, cast

from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from .server_spec import ServerSpec

Transport = Callable[[ServerSpec, IO[str]], AbstractAsyncContextManager[Any]]


def open_transport(spec: ServerSpec, errors: IO[str]) -> AbstractAsyncContextManager[Any]:
    """The transport that a server's configuration asks for.

    Args:
        spec: the configuration.
        errors: takes what a process writes to stderr.
    """
    opened: Any
    if spec.transport == "stdio":
        parameters = StdioServerParameters(
            command=spec.command or "",
            args=list(spec.args),
            env=spec.plain_env() or None,
            cwd=spec.cwd,
        )
        opened = stdio_client(parameters, errlog=errors)  # type: ignore[arg-type]
    elif spec.transport == "sse":
        opened = sse_client(spec.url or "", headers=spec.plain_headers())
    else:
        opened = _streamable_http(spec)
    return cast("AbstractAsyncContextManager[Any]", opened)


@asynccontextmanager
async def _streamable_http(spec: ServerSpec) -> AsyncIterator[Any]:
    import httpx2

    async with (
        httpx2.AsyncClient(headers=spec.plain_headers(), timeout=spec.timeout_s) as client,
        streamable_http_client(spec.url or "", http_client=client) as streams,
    ):
        yield streams
