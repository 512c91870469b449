"""The login of a person to a server that asks for OAuth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult

from ...errors import ConfigError
from .oauth import KeyringLogins, provider_for
from .server_log import log_opener
from .server_process import RunningProcesses
from .server_spec import ServerSpec
from .transport import transport_over

#: Seconds that a person has for the login in the browser.
_LOGIN_TIMEOUT_S = 300.0
_DONE_PAGE = b"<p>shortlist is logged in. You can close this page."


async def log_in(spec: ServerSpec, show: Callable[[str], Awaitable[None]]) -> int:
    """Log in to a server, and store the tokens.

    The user sees a page of the authorization server. It redirects the browser to a port of this
    machine.

    Args:
        spec: a server over HTTP or SSE.
        show: function that shows a page, for instance in a browser.

    Returns:
        How many tools the server lists.

    Raises:
        ConfigError: the server does not use HTTP, or nobody logged in in time.
    """
    if spec.transport == "stdio":
        raise ConfigError(
            f"server {spec.name!r}: it is a process on this machine and needs no login"
        )
    if spec.transport == "openapi":
        raise ConfigError(
            f"server {spec.name!r}: it is an HTTP API without MCP; give its token in `headers`"
        )
    async with _redirect_page() as (address, wait_for_redirect):
        with anyio.move_on_after(_LOGIN_TIMEOUT_S):
            logins = KeyringLogins(spec)
            auth = provider_for(spec, logins, address, show, wait_for_redirect)
            open_transport = transport_over(RunningProcesses.default(), auth=lambda _: auth)
            with log_opener()(spec.name) as log:
                async with Client(open_transport(spec, log, lambda _: None)) as client:
                    return len((await client.list_tools()).tools)
    raise ConfigError(
        f"server {spec.name!r}: nobody logged in within {_LOGIN_TIMEOUT_S:.0f} s; try again"
    )


@asynccontextmanager
async def _redirect_page() -> AsyncIterator[
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
