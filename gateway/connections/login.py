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
_PATIENCE = 300.0
_DONE = b"<p>shortlist is logged in. You can close this page."


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
    async with _redirects() as (address, redirected):
        with anyio.move_on_after(_PATIENCE):
            kept = KeyringLogins(spec)
            auth = provider_for(spec, kept, address, show, redirected)
            opened = transport_over(RunningProcesses.default(), auth=lambda _: auth)
            with log_opener()(spec.name) as log:
                async with Client(opened(spec, log, lambda _: None)) as client:
                    return len((await client.list_tools()).tools)
    raise ConfigError(f"server {spec.name!r}: nobody logged in within {_PATIENCE:.0f} s; try again")


@asynccontextmanager
async def _redirects() -> AsyncIterator[
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

    came = anyio.Event()
    found: dict[str, str] = {}

    async def callback(request: Request) -> HTMLResponse:
        found.update(request.query_params)
        came.set()
        return HTMLResponse(_DONE)

    async def redirected() -> AuthorizationCodeResult:
        await came.wait()
        if "code" not in found:
            raise ConfigError(f"the login was refused: {found.get('error', 'no reason given')}")
        return AuthorizationCodeResult(
            code=found["code"], state=found.get("state"), iss=found.get("iss")
        )

    app = Starlette(routes=[Route("/callback", callback)])
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    )
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        while not server.started:
            await anyio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/callback", redirected
        finally:
            server.should_exit = True
