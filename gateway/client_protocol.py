"""One client's connection, whose protocol the client's first request decides.

The SDK refuses the handshake `initialize` after a first request of the protocol 2026-07-28. Some
clients ask `server/discover` first and begin the handshake if no answer comes in time, because the
gateway is still starting. Their handshake begins the connection anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio
import mcp.types as types
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from contextvars import Context

    from mcp.server.lowlevel import Server

MessageOrError = SessionMessage | Exception


async def serve_connection(server: Server[Any], read: Any, write: Any) -> None:
    """Serve one client until its messages end.

    Args:
        server: the MCP server.
        read: receiving end of the client's messages.
        write: sending end of the messages for it; it has `clone`.
    """
    options = server.create_initialization_options()
    incoming = _ClientMessages(read)
    async with write, read:
        while incoming.has_more:
            incoming.begin()
            await server.run(incoming, write.clone(), options)


class _ClientMessages:
    """A client's messages up to a handshake that follows `server/discover` alone.

    The SDK closes this stream when it has ended; the client's stream stays open.

    Args:
        read: receiving end of the client's messages.
    """

    def __init__(self, read: Any) -> None:
        self._read = read
        self._handshake: MessageOrError | None = None
        self._only_discover_came = False
        #: Whether a run of the server has more messages to read.
        self.has_more = True

    @property
    def last_context(self) -> Context | None:
        """Context of the sender of the last message."""
        context: Context | None = getattr(self._read, "last_context", None)
        return context

    def begin(self) -> None:
        """The next run of the server begins."""
        self.has_more = False

    async def receive(self) -> MessageOrError:
        """The next message.

        Raises:
            anyio.EndOfStream: there is none, or the connection begins anew.
        """
        if self._handshake is not None:
            handshake, self._handshake = self._handshake, None
            return handshake
        incoming: MessageOrError = await self._read.receive()
        if isinstance(incoming, SessionMessage) and isinstance(
            incoming.message, types.JSONRPCRequest
        ):
            method = incoming.message.method
            if method == "initialize" and self._only_discover_came:
                self._only_discover_came, self.has_more = False, True
                self._handshake = incoming
                raise anyio.EndOfStream
            self._only_discover_came = method == "server/discover"
        return incoming

    async def aclose(self) -> None:
        """Nothing: the next run reads from the same stream."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageOrError:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return
