"""The login of a person to a server that asks for OAuth."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthRegistrationError

from ...errors import ConfigError
from .connection_errors import ConsentNeeded, error_in_one_line
from .masking import redacted
from .oauth import LOOPBACK_HOSTS, ClientKind, InteractiveLogin, LoginStorage
from .server_log import log_opener
from .server_process import RunningProcesses
from .server_spec import LoginSettings, ServerSpec
from .transport import transport_over

#: Seconds that a person has for the login in the browser.
_LOGIN_TIMEOUT_S = 300.0
#: Most characters of a page's address. A server's list of scopes is part of it.
_MAX_PAGE_CHARS = 16_000
_DONE_PAGE = b"<p>shortlist is logged in. You can close this page."


@dataclass(frozen=True, slots=True)
class LoginResult:
    """A login that works.

    Args:
        tool_count: how many tools the server lists.
        client_kind: how the authorization server knows this program; None if the server lists its
            tools without a login.
        asked_person: whether a page was shown; otherwise an earlier login was still valid.
    """

    tool_count: int
    client_kind: ClientKind | None
    asked_person: bool


async def log_in(
    spec: ServerSpec,
    show_page: Callable[[str], Awaitable[None]],
    read_pasted: Callable[[], Awaitable[str]] | None = None,
) -> LoginResult:
    """Log in to a server, and store the tokens.

    The user sees a page of the authorization server. It redirects the browser to a port of this
    machine. If the browser runs on another machine, the user pastes the address that it could not
    open.

    Args:
        spec: a server over HTTP or SSE.
        show_page: function that shows a page, for instance in a browser.
        read_pasted: function that waits for a pasted address; "" if there will be none.

    Raises:
        ConfigError: the server does not use HTTP, nobody logged in in time, or the login failed.
            The message quotes the servers in one short line without control characters.
    """
    if spec.transport == "stdio":
        raise ConfigError(
            f"server {spec.name!r}: it is a process on this machine and needs no login"
        )
    if spec.transport == "openapi":
        raise ConfigError(
            f"server {spec.name!r}: it is an HTTP API without MCP; give its token in `credentials`"
        )
    storage = LoginStorage(spec)
    pages_shown = 0

    async def show_once(page: str) -> None:
        nonlocal pages_shown
        pages_shown += 1
        if pages_shown > 1:
            raise ConfigError("it wants a second login at once; its token ends, or it refuses it")
        if len(page) > _MAX_PAGE_CHARS:
            raise ConfigError(
                f"the address of its page has {len(page):,} characters; name the scopes to ask "
                "for as oauth.scopes"
            )
        await show_page(page)

    redirect = _RedirectPage(spec.login, _registered_port(storage))
    try:
        async with redirect.served():
            with anyio.move_on_after(_LOGIN_TIMEOUT_S):

                async def wait_for_redirect() -> AuthorizationCodeResult:
                    return await redirect.result(read_pasted)

                auth = InteractiveLogin(
                    spec, storage, redirect.address, show_once, wait_for_redirect
                )
                open_transport = transport_over(RunningProcesses.default(), auth=lambda _: auth)
                with log_opener()(spec.name) as log:
                    async with Client(open_transport(spec, log, lambda _: None)) as client:
                        tool_count = len((await client.list_tools()).tools)
                return LoginResult(tool_count, storage.client_kind, pages_shown > 0)
    except Exception as error:
        cause = _login_error(error)
        reason = redacted(error_in_one_line(cause), spec)
        if isinstance(cause, OAuthRegistrationError):
            reason = (
                "the authorization server refuses to register this program; register an "
                "application there with the redirect address http://localhost:PORT/callback, and "
                'write "oauth": {"clientId": ..., "callbackPort": PORT} into the entry '
                f"({reason})"
            )
        raise ConfigError(f"server {spec.name!r}: the login failed: {reason}") from error
    raise ConfigError(
        f"server {spec.name!r}: nobody logged in within {_LOGIN_TIMEOUT_S:.0f} s; try again"
    )


def _login_error(error: BaseException) -> BaseException:
    """The error of the login itself, below the errors that the transport made of it."""
    if isinstance(error, BaseExceptionGroup):
        return _login_error(error.exceptions[0])
    if isinstance(error, ConsentNeeded) and error.__cause__ is not None:
        return _login_error(error.__cause__)
    return error


def _registered_port(storage: LoginStorage) -> int:
    """Port of the earlier registration, which authorization servers may compare; 0 for none."""
    client = storage.login.client
    if client is None or not client.redirect_uris:
        return 0
    address = client.redirect_uris[0]
    return address.port or 0 if address.host in LOOPBACK_HOSTS else 0


class _RedirectPage:
    """A page of this machine for the redirect of the authorization server.

    Args:
        settings: the login of the server's configuration.
        preferred_port: port to use if the configuration names none and it is free; 0 for any.

    Attributes:
        address: address of the redirect.

    Raises:
        ConfigError: the configured port is in use.
    """

    def __init__(self, settings: LoginSettings, preferred_port: int) -> None:
        configured = settings.redirect_uri
        if configured is None and settings.callback_port is not None:
            configured = f"http://localhost:{settings.callback_port}/callback"
        parts = urlsplit(configured or "http://127.0.0.1/callback")
        is_local = parts.hostname in LOOPBACK_HOSTS
        fixed_port = (parts.port if is_local else None) or settings.callback_port
        host = "::1" if parts.hostname == "::1" else "127.0.0.1"
        self._socket = _listening_socket(host, fixed_port, preferred_port)
        self._path = parts.path or "/"
        self.address = configured or parts.geturl()
        if is_local and parts.port is None:
            port = self._socket.getsockname()[1]
            self.address = parts._replace(netloc=f"{parts.netloc}:{port}").geturl()
        self._arrived = anyio.Event()
        self._parameters: dict[str, str] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """The page is there in this block."""
        import uvicorn
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import HTMLResponse
        from starlette.routing import Route

        async def receive_redirect(request: Request) -> HTMLResponse:
            self._receive(dict(request.query_params))
            return HTMLResponse(_DONE_PAGE)

        app = Starlette(routes=[Route(self._path, receive_redirect)])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))

        async def serve() -> None:
            # A cancellation would leave its socket open. It ends by `should_exit`.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[self._socket])

        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            while not server.started:
                await anyio.sleep(0.01)
            try:
                yield
            finally:
                server.should_exit = True

    async def result(
        self, read_pasted: Callable[[], Awaitable[str]] | None
    ) -> AuthorizationCodeResult:
        """What the authorization server answered, by the browser or by a pasted address.

        Raises:
            ConfigError: the authorization server refused the login.
        """
        async with anyio.create_task_group() as group:
            if read_pasted is not None:
                group.start_soon(self._take_pasted, read_pasted)
            await self._arrived.wait()
            group.cancel_scope.cancel()
        parameters = self._parameters
        if "code" not in parameters:
            raise ConfigError(
                f"the login was refused: {parameters.get('error', 'no reason given')}"
            )
        return AuthorizationCodeResult(
            code=parameters["code"], state=parameters.get("state"), iss=parameters.get("iss")
        )

    async def _take_pasted(self, read_pasted: Callable[[], Awaitable[str]]) -> None:
        while text := await read_pasted():
            parameters = {
                name: values[0] for name, values in parse_qs(urlsplit(text.strip()).query).items()
            }
            if "state" in parameters and parameters.keys() & {"code", "error"}:
                self._receive(parameters)

    def _receive(self, parameters: dict[str, str]) -> None:
        if not self._arrived.is_set():
            self._parameters = parameters
            self._arrived.set()


def _listening_socket(host: str, fixed_port: int | None, preferred_port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for port in (fixed_port,) if fixed_port is not None else (preferred_port, 0):
        try:
            listener.bind((host, port))
        except OSError:
            continue
        return listener
    listener.close()
    raise ConfigError(
        f"oauth.callbackPort: port {fixed_port} of this machine is in use; "
        "end the program that uses it, or choose another port"
    )
