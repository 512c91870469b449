"""The login of a person to a server that asks for OAuth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult

from ...errors import ConfigError
from .connection_errors import ConsentNeeded, error_in_one_line
from .masking import redacted
from .oauth import LoginStorage, interactive_login_auth
from .server_log import log_opener
from .server_process import RunningProcesses
from .server_spec import ServerSpec
from .transport import transport_over

#: Seconds that a person has for the login in the browser.
_LOGIN_TIMEOUT_S = 300.0
_DONE_PAGE = b"<p>shortlist is logged in. You can close this page."


async def log_in(spec: ServerSpec, show_page: Callable[[str], Awaitable[None]]) -> int:
    """Log in to a server, and store the tokens.

    The user sees a page of the authorization server. It redirects the browser to a port of this
    machine.

    Args:
        spec: a server over HTTP or SSE.
        show_page: function that shows a page, for instance in a browser.

    Returns:
        How many tools the server lists.

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
            f"server {spec.name!r}: it is an HTTP API without MCP; give its token in `headers`"
        )
    storage = LoginStorage(spec)
    pages_shown = 0

    async def show_once(page: str) -> None:
        nonlocal pages_shown
        pages_shown += 1
        if pages_shown > 1:
            raise ConfigError("it wants a second login at once; its token ends, or it refuses it")
        await show_page(page)

    try:
        async with _serve_redirect_page() as (address, wait_for_redirect):
            with anyio.move_on_after(_LOGIN_TIMEOUT_S):
                auth = interactive_login_auth(spec, storage, address, show_once, wait_for_redirect)
                open_transport = transport_over(RunningProcesses.default(), auth=lambda _: auth)
                with log_opener()(spec.name) as log:
                    async with Client(open_transport(spec, log, lambda _: None)) as client:
                        return len((await client.list_tools()).tools)
    except Exception as error:
        reason = redacted(error_in_one_line(_login_error(error)), spec)
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


@asynccontextmanager
async def _serve_redirect_page() -> AsyncIterator[
    tuple[str, Callable[[], Awaitable[AuthorizationCodeResult]]]
]:
    """A page of this machine for the redirect of the authorization server.

    Yields:
        Its address, and a function that waits for the redirect.
    """
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    redirect_arrived = anyio.Event()
    parameters: dict[str, str] = {}

    async def receive_redirect(request: Request) -> HTMLResponse:
        if not redirect_arrived.is_set():
            parameters.update(request.query_params)
            redirect_arrived.set()
        return HTMLResponse(_DONE_PAGE)

    async def wait_for_redirect() -> AuthorizationCodeResult:
        await redirect_arrived.wait()
        if "code" not in parameters:
            raise ConfigError(
                f"the login was refused: {parameters.get('error', 'no reason given')}"
            )
        return AuthorizationCodeResult(
            code=parameters["code"], state=parameters.get("state"), iss=parameters.get("iss")
        )

    app = Starlette(routes=[Route("/callback", receive_redirect)])
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    )

    async def serve() -> None:
        # A cancellation would leave its socket open. It ends by `should_exit`.
        with anyio.CancelScope(shield=True):
            await server.serve()

    async with anyio.create_task_group() as group:
        group.start_soon(serve)
        while not server.started:
            await anyio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/callback", wait_for_redirect
        finally:
            server.should_exit = True
