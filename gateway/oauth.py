"""Logins to servers that ask for OAuth 2.1: tokens in the system keyring, and the login itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ..errors import ConfigError
from .login_needed import ConsentNeeded
from .server_spec import ServerSpec
from .system_keyring import delete_password, keyring_password, store_password

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx2

_SERVICE = "shortlist-oauth"
#: Seconds that a person has for the login in the browser.
_PATIENCE = 300.0
_DONE = b"<p>shortlist is logged in. You can close this page."
_CLIENT_NAME = "shortlist gateway"


class Login(BaseModel):
    """What is kept of the login to one server.

    Args:
        tokens: what the authorization server gave.
        expires_at: when the access token ends, in seconds since 1970; None where it did not say.
        client: how this program is registered there.
        metadata: where tokens are renewed.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None


class KeyringLogins:
    """The login to one server, in the system keyring under the server's name and address.

    Args:
        spec: of the server.

    Raises:
        ConfigError: the keyring cannot be read.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._user = f"{spec.name} {spec.url}"
        self.login = self._read()
        #: Of the provider that uses this; knows where tokens are renewed.
        self.context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, None before the first login."""
        return self.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, and until when they count."""
        metadata = None if self.context is None else self.context.oauth_metadata
        ends = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._keep(tokens=tokens, expires_at=ends, metadata=metadata or self.login.metadata)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """How this program is registered."""
        return self.login.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        self._keep(client=client_info)

    def forget(self) -> None:
        """Delete the login.

        Raises:
            ConfigError: there is none, or the keyring refuses.
        """
        delete_password(_SERVICE, self._user)

    def _keep(self, **changed: Any) -> None:
        self.login = self.login.model_copy(update=changed)
        store_password(_SERVICE, self._user, self.login.model_dump_json(exclude_none=True))

    def _read(self) -> Login:
        kept = keyring_password(_SERVICE, self._user)
        if kept is None:
            return Login()
        try:
            return Login.model_validate_json(kept)
        except ValidationError:
            return Login()  # of another version: the person logs in again


def login_of(spec: ServerSpec) -> httpx2.Auth | None:
    """What adds the token of an earlier login to requests, and renews it; None without a login.

    Args:
        spec: of a server over HTTP or SSE.

    Raises:
        ConfigError: the keyring cannot be read.
    """
    kept = KeyringLogins(spec)
    if kept.login.tokens is None:
        return None

    async def refuse(_: str) -> None:
        raise ConsentNeeded(spec.name)

    async def never() -> AuthorizationCodeResult:
        raise ConsentNeeded(spec.name)

    return _provider(spec, kept, "http://127.0.0.1/callback", refuse, never)


async def log_in(spec: ServerSpec, show: Callable[[str], Awaitable[None]]) -> int:
    """Log in to a server, and keep the tokens.

    A page of the authorization server is shown; it sends the person back to a port of this machine.

    Args:
        spec: of a server over HTTP or SSE.
        show: shows a page, for instance in a browser.

    Returns:
        How many tools the server lists.

    Raises:
        ConfigError: the server is not reached over HTTP, or nobody logged in in time.
    """
    if spec.transport == "stdio":
        raise ConfigError(f"server {spec.name!r}: it runs on this machine and needs no login")
    from .logs import log_opener
    from .orphans import RunningProcesses
    from .transport import transport_over

    async with _redirects() as (address, redirected):
        with anyio.move_on_after(_PATIENCE):
            kept = KeyringLogins(spec)
            auth = _provider(spec, kept, address, show, redirected)
            opened = transport_over(RunningProcesses.default(), auth=lambda _: auth)
            with log_opener()(spec.name) as log:
                async with Client(opened(spec, log, lambda _: None)) as client:
                    return len((await client.list_tools()).tools)
    raise ConfigError(f"server {spec.name!r}: nobody logged in within {_PATIENCE:.0f} s")


def _provider(
    spec: ServerSpec,
    kept: KeyringLogins,
    address: str,
    redirect: Callable[[str], Awaitable[None]],
    answered: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(address)],
        client_name=_CLIENT_NAME,
        token_endpoint_auth_method="none",  # noqa: S106 - a public client
        grant_types=["authorization_code", "refresh_token"],
    )
    made = OAuthClientProvider(spec.url or "", metadata, kept, redirect, answered)
    # Not part of what it loads: without these a token that has ended would not be renewed.
    made.context.token_expiry_time = kept.login.expires_at
    made.context.oauth_metadata = kept.login.metadata
    kept.context = made.context
    return made


@asynccontextmanager
async def _redirects() -> AsyncIterator[
    tuple[str, Callable[[], Awaitable[AuthorizationCodeResult]]]
]:
    """A page of this machine that the authorization server sends the person back to.

    Yields:
        Its address, and what waits for the visit.
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
