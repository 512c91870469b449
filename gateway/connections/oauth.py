"""Logins to servers with OAuth 2.1. Tokens are in the system keyring."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, Field, ValidationError

from .connection_errors import ConsentNeeded
from .server_spec import ServerSpec
from .system_keyring import delete_password, keyring_password, store_password

if TYPE_CHECKING:
    import httpx2

_KEYRING_SERVICE = "shortlist-oauth"
_CLIENT_NAME = "shortlist gateway"
_UNAUTHORIZED_STATUS = 401
#: The year 3000, in seconds since 1970: a token may not end later, so that it has a date.
_LATEST_EXPIRY = 32_503_680_000.0


class Login(BaseModel):
    """The stored login to one server.

    Args:
        tokens: tokens from the authorization server.
        expires_at: expiry of the access token in seconds since 1970; None if unknown.
        client: registration of this program at the authorization server.
        metadata: metadata of the authorization server, with the address to renew tokens.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = Field(default=None, ge=0, le=_LATEST_EXPIRY)
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None


class LoginStorage:
    """The login to one server, in the system keyring under the server's name and address.

    Args:
        spec: the server.

    Attributes:
        login: the stored login; empty if there is none.
        provider_context: context of the SDK's provider that uses this storage. It has the metadata
            of the authorization server.

    Raises:
        ConfigError: the keyring cannot be read.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._user = f"{spec.name} {spec.url}"
        self.login = self._read()
        self.provider_context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; None before the first login."""
        return self.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens and their expiry."""
        metadata = None if self.provider_context is None else self.provider_context.oauth_metadata
        expires_at = None
        if tokens.expires_in is not None:
            expires_at = min(max(0.0, time.time() + tokens.expires_in), _LATEST_EXPIRY)
        self._store(tokens=tokens, expires_at=expires_at, metadata=metadata or self.login.metadata)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration of this program."""
        return self.login.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        self._store(client=client_info)

    def forget(self) -> None:
        """Delete the login.

        Raises:
            ConfigError: there is no login, or the keyring cannot be written.
        """
        delete_password(_KEYRING_SERVICE, self._user)

    def _store(self, **changes: Any) -> None:
        self.login = self.login.model_copy(update=changes)
        store_password(_KEYRING_SERVICE, self._user, self.login.model_dump_json(exclude_none=True))

    def _read(self) -> Login:
        stored = keyring_password(_KEYRING_SERVICE, self._user)
        if stored is None:
            return Login()
        try:
            return Login.model_validate_json(stored)
        except ValidationError:
            return Login()  # of another version: the person logs in again


def stored_login_auth(spec: ServerSpec) -> httpx2.Auth | None:
    """Adds the token of an earlier login to requests and renews it; None without a login.

    Args:
        spec: a server over HTTP or SSE.

    Raises:
        ConfigError: the keyring cannot be read.
    """
    storage = LoginStorage(spec)
    if storage.login.tokens is None:
        return None

    return _with_stored_login(_StoredLogin(spec, storage), storage)


class _StoredLogin(OAuthClientProvider):
    """Adds the token of an earlier login to requests, and renews it.

    When a server refuses the token, the SDK would read the server's documents, and register at the
    host that they name. Without a person, no server may send the gateway to hosts of its choice,
    or change the stored registration.

    Args:
        spec: the server.
        storage: storage of the tokens.
    """

    def __init__(self, spec: ServerSpec, storage: LoginStorage) -> None:
        super().__init__(spec.url or "", _client_metadata("http://127.0.0.1/callback"), storage)
        self._server = spec.name

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with aclosing(super()._auth_flow(request)) as flow:
            outgoing = await anext(flow)
            while outgoing is not request:
                outgoing = await flow.asend((yield outgoing))
        # The lock of the SDK's flow is free here: no call waits for the answer to another one.
        response = yield request
        if response.status_code == _UNAUTHORIZED_STATUS:
            raise ConsentNeeded(self._server)


def interactive_login_auth(
    spec: ServerSpec,
    storage: LoginStorage,
    redirect_address: str,
    show_page: Callable[[str], Awaitable[None]],
    wait_for_redirect: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """Adds tokens to requests, renews them, and starts a login if there are none.

    Args:
        spec: the server.
        storage: storage of the tokens.
        redirect_address: page for the redirect of the authorization server.
        show_page: function that shows a page of the authorization server.
        wait_for_redirect: function that waits for the redirect.
    """
    metadata = _client_metadata(redirect_address)
    return _with_stored_login(
        OAuthClientProvider(spec.url or "", metadata, storage, show_page, wait_for_redirect),
        storage,
    )


def _client_metadata(redirect_address: str) -> OAuthClientMetadata:
    return OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_address)],
        client_name=_CLIENT_NAME,
        token_endpoint_auth_method="none",  # noqa: S106 - a public client
        grant_types=["authorization_code", "refresh_token"],
    )


def _with_stored_login(provider: OAuthClientProvider, storage: LoginStorage) -> OAuthClientProvider:
    """The provider with the stored login.

    The SDK does not load all of it. Without the rest, an expired token would not be renewed.
    """
    provider.context.token_expiry_time = storage.login.expires_at
    provider.context.oauth_metadata = storage.login.metadata
    storage.provider_context = provider.context
    return provider
