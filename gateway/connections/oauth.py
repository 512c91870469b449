"""Logins to servers with OAuth 2.1. Tokens are in the system keyring."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from .connection_errors import ConsentNeeded
from .server_spec import ServerSpec
from .system_keyring import delete_password, keyring_password, store_password

if TYPE_CHECKING:
    import httpx2

_SERVICE = "shortlist-oauth"
_CLIENT_NAME = "shortlist gateway"


class Login(BaseModel):
    """The stored login to one server.

    Args:
        tokens: tokens from the authorization server.
        expires_at: expiry of the access token in seconds since 1970; None if unknown.
        client: registration of this program at the authorization server.
        metadata: metadata of the authorization server, with the address to renew tokens.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None


class KeyringLogins:
    """The login to one server, in the system keyring under the server's name and address.

    Args:
        spec: the server.

    Raises:
        ConfigError: the keyring cannot be read.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._user = f"{spec.name} {spec.url}"
        self.login = self._read()
        #: The provider that uses this storage. It has the metadata of the authorization server.
        self.context: Any = None

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; None before the first login."""
        return self.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens and their expiry."""
        metadata = None if self.context is None else self.context.oauth_metadata
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
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
        delete_password(_SERVICE, self._user)

    def _store(self, **changes: Any) -> None:
        self.login = self.login.model_copy(update=changes)
        store_password(_SERVICE, self._user, self.login.model_dump_json(exclude_none=True))

    def _read(self) -> Login:
        stored = keyring_password(_SERVICE, self._user)
        if stored is None:
            return Login()
        try:
            return Login.model_validate_json(stored)
        except ValidationError:
            return Login()  # of another version: the person logs in again


def login_of(spec: ServerSpec) -> httpx2.Auth | None:
    """Adds the token of an earlier login to requests and renews it; None without a login.

    Args:
        spec: a server over HTTP or SSE.

    Raises:
        ConfigError: the keyring cannot be read.
    """
    logins = KeyringLogins(spec)
    if logins.login.tokens is None:
        return None

    async def refuse_redirect(_: str) -> None:
        raise ConsentNeeded(spec.name)

    async def refuse_code() -> AuthorizationCodeResult:
        raise ConsentNeeded(spec.name)

    return provider_for(spec, logins, "http://127.0.0.1/callback", refuse_redirect, refuse_code)


def provider_for(
    spec: ServerSpec,
    logins: KeyringLogins,
    redirect_address: str,
    show_page: Callable[[str], Awaitable[None]],
    wait_for_redirect: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """Adds tokens to requests, renews them, and starts a login if there are none.

    Args:
        spec: the server.
        logins: storage of the tokens.
        redirect_address: page for the redirect of the authorization server.
        show_page: function that shows a page of the authorization server.
        wait_for_redirect: function that waits for the redirect.
    """
    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_address)],
        client_name=_CLIENT_NAME,
        token_endpoint_auth_method="none",  # noqa: S106 - a public client
        grant_types=["authorization_code", "refresh_token"],
    )
    provider = OAuthClientProvider(spec.url or "", metadata, logins, show_page, wait_for_redirect)
    # The SDK does not load these. Without them, an expired token would not be renewed.
    provider.context.token_expiry_time = logins.login.expires_at
    provider.context.oauth_metadata = logins.login.metadata
    logins.context = provider.context
    return provider
