"""Reports when a client ends its HTTP session, so that its stored data is deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SessionEnd:
    """ASGI middleware that reports each accepted `DELETE` of an MCP session.

    Args:
        app: the ASGI application of the MCP server.
        ended: called with the profile's name (None for the default) and the MCP session's id.
    """

    def __init__(self, app: Any, ended: Callable[[str | None, str], None]) -> None:
        self._app = app
        self._ended = ended

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, and check the answer to a `DELETE`."""
        number = b""
        if scope["type"] == "http" and scope["method"] == "DELETE":
            number = dict(scope["headers"]).get(b"mcp-session-id", b"")

        async def watched(message: Any) -> None:
            if number and message["type"] == "http.response.start" and message["status"] < 300:
                self._ended(scope.get("shortlist.profile"), number.decode("latin-1"))
            await send(message)

        await self._app(scope, receive, watched if number else send)
