"""The gateway over streamable HTTP.

Routes, bearer tokens, the end of a session, and the server that listens.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, cast

import anyio
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from ..errors import ConfigError
from ..untrusted.json_bytes import JsonRepair
from .http_connections import LISTEN_BACKLOG, ClientConnections, connection_limit
from .request_origin import LocalRequests

if TYPE_CHECKING:
    from .observe.gateway_metrics import Metrics
    from .server import Gateway


#: Addresses that only this machine can reach.
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
#: Path of the operator's page.
PAGE_PATH = "/inspect"


def check_can_listen(host: str, port: int) -> None:
    """Refuse an address on which no server can listen, before anything is started for it.

    Args:
        host: address to listen on.
        port: port to listen on, 0 for a free one.

    Raises:
        ConfigError: another program listens there, or this machine has no such address.
    """
    failures: list[OSError] = []
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as failure:
        addresses, failures = [], [failure]
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as test_socket:
                if sys.platform != "win32":
                    test_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                test_socket.bind(address)
        except OSError as failure:
            failures.append(failure)
    blocking_failures = [
        failure for failure in failures if failure.errno in (errno.EADDRINUSE, errno.EACCES)
    ]
    if blocking_failures or len(failures) == max(1, len(addresses)):
        reason = (blocking_failures or failures)[0].strerror
        raise ConfigError(
            f"{host}:{port}: cannot listen there: {reason}; use another address or port"
        )


async def serve_http(
    gateway: Gateway,
    host: str,
    port: int,
    tokens: Mapping[str, str] | None = None,
    *,
    metrics: Metrics | None = None,
    metrics_token: str | None = None,
    page: Any = None,
    on_start: Callable[[int], None] | None = None,
) -> None:
    """Serve clients over streamable HTTP at `/mcp` until cancelled.

    `/healthz` shows anyone the number of servers in each state. `/metrics` needs its own token.

    Args:
        gateway: the gateway to serve.
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        tokens: profile name to its bearer token.
        metrics: served at `/metrics`; None for no such path.
        metrics_token: bearer token for `/metrics`.
        page: ASGI application of the operator's page, served at `/inspect`. It checks its own
            token. None for no such path.
        on_start: called with the port when the server accepts requests.
    """

    async def health(_: Any) -> JSONResponse:
        # Numbers only, because this request needs no token.
        states = Counter(upstream.state.value for upstream in gateway.fleet.upstreams.values())
        return JSONResponse({"status": "ok", "servers": dict(states)})

    routes: list[BaseRoute] = [Route("/healthz", health)]
    if metrics is not None:
        is_open = not tokens and host in LOOPBACK_HOSTS
        routes.append(Route("/metrics", _metrics_answer(metrics, metrics_token, is_open=is_open)))
    if page is not None:
        routes.append(Mount(PAGE_PATH, page))
    app = gateway.server.streamable_http_app(
        host=host,
        custom_starlette_routes=cast("list[Route]", routes),
        # `listen` compares hosts and origins, for all paths; the SDK compares texts.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    requests = McpRequests(app, gateway.sessions.end)
    guarded = BearerTokens(requests, tokens or {}, frozenset({"/healthz", "/metrics"}))
    async with anyio.create_task_group() as group:
        await group.start(gateway.fleet.run)
        await listen(guarded, host, port, on_start, has_lifespan=True)
        group.cancel_scope.cancel()


async def listen(
    app: Any,
    host: str,
    port: int,
    on_start: Callable[[int], Any] | None,
    *,
    has_lifespan: bool = False,
) -> None:
    """Serve an application over HTTP until cancelled; the only listener of this package.

    Connections are limited, and bad requests are counted in the log, see `ClientConnections`. At an
    address of this machine, requests for other hosts and from other origins are refused.

    Args:
        app: the ASGI application.
        host: address to listen on.
        port: port to listen on, 0 for a free one.
        on_start: called with the port when requests are accepted.
        has_lifespan: whether the application has work at its start and end.
    """
    connections = ClientConnections(connection_limit())
    config = uvicorn.Config(
        LocalRequests(app) if host in LOOPBACK_HOSTS else app,
        host=host,
        port=port,
        http=cast("type[asyncio.Protocol]", connections.connection),
        backlog=LISTEN_BACKLOG,
        log_level="warning",
        lifespan="on" if has_lifespan else "off",
        # Nothing here depends on what a proxy says of the client.
        proxy_headers=False,
    )
    http_server = PortReportingServer(config, on_start)
    with connections.counted_not_logged():
        try:
            await http_server.serve()
        finally:
            with anyio.CancelScope(shield=True):
                if http_server.started:
                    await http_server.shutdown()


class PortReportingServer(uvicorn.Server):
    """A uvicorn server that reports its port.

    Args:
        config: its settings.
        on_start: called with the port when the server accepts requests.
    """

    def __init__(self, config: uvicorn.Config, on_start: Callable[[int], None] | None) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and report the port."""
        await super().startup(sockets)
        if self._on_start is not None and self.servers:
            self._on_start(self.servers[0].sockets[0].getsockname()[1])


def _metrics_answer(
    metrics: Metrics, token: str | None, *, is_open: bool
) -> Callable[[Request], Awaitable[Response]]:
    """Answers with the metrics, or with 401 and what to do.

    Args:
        metrics: the metrics to show.
        token: the bearer token; None if there is none.
        is_open: whether requests are answered without a token; `LocalRequests` has checked them.
    """

    async def answer(request: Request) -> Response:
        sent_token = _bearer_token(request.scope).encode()
        if is_open if token is None else compare_digest(sent_token, token.encode()):
            text = await anyio.to_thread.run_sync(metrics.text)
            return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
        return PlainTextResponse(
            "needs the bearer token of the setting shortlist.metrics_token\n",
            status_code=401,
            headers={"www-authenticate": "Bearer"},
        )

    return answer


class BearerTokens:
    """ASGI middleware: a request needs the bearer token of a profile. The page has its own token.

    The profile is also the request's user. The MCP server answers 404 to a request with the id of
    a session that another user opened.

    Args:
        app: the application to protect.
        tokens: profile name to its token. If empty, every request passes with the default profile.
        open_paths: paths that need no token.
    """

    def __init__(
        self, app: Any, tokens: Mapping[str, str], open_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._tokens = dict(tokens)
        self._open_paths = open_paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on with its profile, or answer 401."""
        path = scope.get("path", "")
        is_open = path in self._open_paths or f"{path}/".startswith(f"{PAGE_PATH}/")
        if scope["type"] != "http" or not self._tokens or is_open:
            await self._app(scope, receive, send)
            return
        token = _bearer_token(scope)
        matching = [
            name
            for name, profile_token in self._tokens.items()
            if compare_digest(profile_token.encode(), token.encode())
        ]
        if not matching:
            refusal = Response(status_code=401, headers={"www-authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        user = AuthenticatedUser(AccessToken(token=token, client_id=matching[0], scopes=[]))
        # A conversation in a database belongs to the token too, without the token being in it.
        owner = sha256(f"{matching[0]} {token}".encode()).hexdigest()
        identity = {"shortlist.profile": matching[0], "shortlist.owner": owner, "user": user}
        await self._app({**scope, **identity}, receive, send)


def _bearer_token(scope: Any) -> str:
    """The bearer token of a request, "" if it has none."""
    authorization: str = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
    is_bearer = authorization[:7].lower() == "bearer "
    return authorization[7:] if is_bearer else ""


class McpRequests:
    """ASGI middleware of the MCP server: repairs the JSON of requests, and reports ended sessions.

    Args:
        app: the ASGI application of the MCP server.
        on_end: called after each accepted `DELETE` with the profile's name (None for the default)
            and the MCP session's id.
    """

    def __init__(self, app: Any, on_end: Callable[[str | None, str], None]) -> None:
        self._app = app
        self._on_end = on_end

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on with a repaired body, and check the answer to a `DELETE`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        repair, session_id = JsonRepair(), b""
        if scope["method"] == "DELETE":
            session_id = dict(scope["headers"]).get(b"mcp-session-id", b"")

        async def receive_repaired() -> Any:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body = repair.feed(message.get("body", b""))
            if not message.get("more_body", False):
                body += repair.end()
            return {**message, "body": body}

        async def report(message: Any) -> None:
            if session_id and message["type"] == "http.response.start" and message["status"] < 300:
                self._on_end(scope.get("shortlist.profile"), session_id.decode("latin-1"))
            await send(message)

        await self._app(scope, receive_repaired, report)
