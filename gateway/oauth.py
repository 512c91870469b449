"""Logins to servers that ask for OAuth 2.1: their tokens in the system keyring."""

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

from .login_needed import ConsentNeeded
from .server_spec import ServerSpec
from .system_keyring import delete_password, keyring_password, store_password

if TYPE_CHECKING:
    import httpx2

_SERVICE = "shortlist-oauth"
_CLIENT_NAME = "shortlist gateway"


class Login(BaseModel):
    """What is kept of the login to one server.

    Args:
        tokens: tokens from the authorization server.
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

    return provider_for(spec, kept, "http://127.0.0.1/callback", refuse, never)


def provider_for(
    spec: ServerSpec,
    kept: KeyringLogins,
    address: str,
    redirect: Callable[[str], Awaitable[None]],
    answered: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """What adds tokens to requests, renews them, and has a person log in where there are none.

    Args:
        spec: of the server.
        kept: where the tokens are.
        address: page that the authorization server sends the person back to.
        redirect: shows a page of the authorization server.
        answered: waits for the person to come back.
    """
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
