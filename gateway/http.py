"""The gateway over streamable HTTP: routes, bearer tokens, and the server that listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from starlette.responses import JSONResponse
from starlette.routing import Route

from .session_end import SessionEnd

if TYPE_CHECKING:
    from .server import Gateway


async def serve_http(
    gateway: Gateway,
    host: str,
    port: int,
    tokens: Mapping[str, str] | None = None,
    *,
    started: Callable[[int], None] | None = None,
) -> None:
    """Serve clients over streamable HTTP at `/mcp` until cancelled.

    Args:
        gateway: what is served.
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        tokens: profile name to the bearer token that a client of it sends.
        started: called with the port once requests are taken.
    """

    async def health(_: Any) -> JSONResponse:
        states = {name: one.state.value for name, one in gateway.fleet.upstreams.items()}
        return JSONResponse({"status": "ok", "servers": states})

    routes = [Route("/healthz", health)]
    app = gateway.server.streamable_http_app(host=host, custom_starlette_routes=routes)
    watched = SessionEnd(app, gateway.sessions.end)
    guarded = BearerTokens(watched, tokens or {}, frozenset({"/healthz"}))
    config = uvicorn.Config(guarded, host=host, port=port, log_level="warning", lifespan="on")
    front = _Front(config, started)
    async with anyio.create_task_group() as group:
        await group.start(gateway.fleet.run)
        try:
            await front.serve()
        finally:
            with anyio.CancelScope(shield=True):
                if front.started:
                    await front.shutdown()
        group.cancel_scope.cancel()


class _Front(uvicorn.Server):
    """A uvicorn server that says which port it got."""

    def __init__(self, config: uvicorn.Config, started: Callable[[int], None] | None) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self._told is not None and self.servers:
            self._told(self.servers[0].sockets[0].getsockname()[1])


class BearerTokens:
    """ASGI middleware: a request needs the bearer token of a profile.

    Args:
        app: what is protected.
        tokens: profile name to its token; none lets every request pass with the default profile.
        open_paths: paths that need no token.
    """

    def __init__(
        self, app: Any, tokens: Mapping[str, str], open_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._tokens = dict(tokens)
        self._open = open_paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request pass with its profile, or answer 401."""
        if scope["type"] != "http" or not self._tokens or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"").decode("latin-1")
        token = given[7:] if given[:7].lower() == "bearer " else ""
        matching = [
            name
            for name, known in self._tokens.items()
            if compare_digest(known.encode(), token.encode())
        ]
        if not matching:
            challenge = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": challenge})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app({**scope, "shortlist.profile": matching[0]}, receive, send)
