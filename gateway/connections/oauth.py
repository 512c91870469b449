"""Logins to servers with OAuth 2.1. Tokens are in the secret store."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, Field, ValidationError

from ...errors import ConfigError
from .connection_errors import ConsentNeeded
from .credential_sender import LOGIN_KEY, ServerAddress, url_without_user
from .secret_store import secret_store
from .server_spec import LoginSettings, ServerSpec
from .user_folders import own_folder, state_folder

if TYPE_CHECKING:
    import httpx2

_SERVICE = "shortlist-oauth"
_CLIENT_NAME = "shortlist gateway"
_GRANT_TYPES = ["authorization_code", "refresh_token"]
_UNAUTHORIZED_STATUS = 401
#: The year 3000, in seconds since 1970: a token may not end later, so that it has a date.
_LATEST_EXPIRY = 32_503_680_000.0
#: Seconds to wait for another process that renews the same login, and between two looks.
_RENEWAL_TIMEOUT_S, _RENEWAL_POLL_S = 20.0, 0.05
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})

#: How an authorization server knows this program: by the id of the configuration, by the address
#: of its metadata document, or by a registration of its own.
ClientKind = Literal["configured", "metadata document", "registered"]


class Login(BaseModel):
    """The stored login to one server.

    Args:
        tokens: tokens from the authorization server.
        expires_at: expiry of the access token in seconds since 1970; None if unknown.
        client: this program at the authorization server, without a secret of the configuration.
        metadata: metadata of the authorization server, with the address to renew tokens.
        resource: metadata of the server, which says what the tokens are for.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = Field(default=None, ge=0, le=_LATEST_EXPIRY)
    client: OAuthClientInformationFull | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


class LoginStorage:
    """The login to one server, in the secret store under the server's name and address.

    A login of another client id than the configured one counts as none.

    Args:
        spec: the server.

    Attributes:
        settings: the login of the server's configuration.
        user: name of the login in the secret store.
        login: the stored login; empty if there is none.
        provider_context: context of the SDK's provider that uses this storage. It has the metadata
            of the authorization server.

    Raises:
        ConfigError: the secret store cannot be read.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.settings = spec.login
        self.user = f"{spec.name} {spec.url}"
        self.login = self._read()
        self.provider_context: Any = None

    @property
    def client_kind(self) -> ClientKind | None:
        """How the authorization server knows this program; None before the first login."""
        client = self.login.client
        if client is None:
            return None
        if client.client_id == self.settings.client_id:
            return "configured"
        if client.client_id == self.settings.client_metadata_url:
            return "metadata document"
        return "registered"

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; None before the first login."""
        return self.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens and their expiry, and with whose metadata and client they were got."""
        expires_at = None
        if tokens.expires_in is not None:
            expires_at = min(max(0.0, time.time() + tokens.expires_in), _LATEST_EXPIRY)
        changes: dict[str, Any] = {"tokens": tokens, "expires_at": expires_at}
        if self.provider_context is not None:
            client = self.provider_context.client_info
            if client is not None and client.client_id == self.settings.client_id:
                client = client.model_copy(update={"client_secret": None})
            changes["client"] = client
            changes["metadata"] = self.provider_context.oauth_metadata
            changes["resource"] = self.provider_context.protected_resource_metadata
        await self._store(changes)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The configured client, or the stored one."""
        return configured_client(self.settings, self.login.metadata) or self.login.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        await self._store({"client": client_info})

    def reload(self) -> None:
        """Read the login again, which another process may have renewed.

        Raises:
            ConfigError: the secret store cannot be read.
        """
        self.login = self._read()

    def forget(self) -> None:
        """Delete the login.

        Raises:
            ConfigError: there is no login, or the secret store cannot be written.
        """
        secret_store().delete(_SERVICE, self.user)

    async def _store(self, changes: dict[str, Any]) -> None:
        self.login = self.login.model_copy(update=changes)
        text = self.login.model_dump_json(exclude_none=True)
        await anyio.to_thread.run_sync(secret_store().set, _SERVICE, self.user, text)

    def _read(self) -> Login:
        stored = secret_store().get(_SERVICE, self.user)
        if stored is None:
            return Login()
        try:
            login = Login.model_validate_json(stored)
        except ValidationError:
            return Login()  # of another version: the person logs in again
        configured_id = self.settings.client_id
        if configured_id and login.client and login.client.client_id != configured_id:
            return Login()
        return login


def configured_client(
    settings: LoginSettings, metadata: OAuthMetadata | None
) -> OAuthClientInformationFull | None:
    """The client of the configuration; None if it gives no id.

    Args:
        settings: the login of the server's configuration.
        metadata: metadata of the authorization server: how it wants to get the secret.
    """
    if settings.client_id is None:
        return None
    if settings.client_secret is None:
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            token_endpoint_auth_method="none",  # noqa: S106
        )
    methods = None if metadata is None else metadata.token_endpoint_auth_methods_supported
    # RFC 8414, section 2: without a list, the method is `client_secret_basic`.
    is_basic = methods is None or "client_secret_basic" in methods
    return OAuthClientInformationFull(
        client_id=settings.client_id,
        client_secret=settings.client_secret.get_secret_value(),
        token_endpoint_auth_method="client_secret_basic" if is_basic else "client_secret_post",
    )


def client_metadata_document(address: str, callback_port: int | None = None) -> dict[str, Any]:
    """The client id metadata document to host, as JSON values.

    Args:
        address: https address of the document, which is the client's id.
        callback_port: port of `callbackPort`, for authorization servers that compare the port.

    Example:
        >>> document = client_metadata_document("https://example.com/shortlist.json")
        >>> document["client_id"], document["redirect_uris"][0]
        ('https://example.com/shortlist.json', 'http://127.0.0.1/callback')
    """
    ports = [""] if callback_port is None else ["", f":{callback_port}"]
    return {
        "client_id": address,
        "client_name": _CLIENT_NAME,
        "application_type": "native",
        # RFC 8252, section 7.3: on a loopback address, the port of the moment does not count.
        "redirect_uris": [
            f"http://{host}{port}/callback" for port in ports for host in ("127.0.0.1", "localhost")
        ],
        "grant_types": _GRANT_TYPES,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def stored_login_auth(spec: ServerSpec) -> httpx2.Auth | None:
    """Adds the token of an earlier login to requests and renews it; None without a login.

    Args:
        spec: a server over HTTP or SSE.

    Raises:
        ConfigError: the secret store cannot be read.
    """
    storage = LoginStorage(spec)
    return None if storage.login.tokens is None else _StoredLogin(spec, storage)


class _TokenRequests(OAuthClientProvider):
    """Asks for tokens as JSON. GitHub answers a form to requests that do not.

    Its own requests are marked, so that their answers are bounded.
    """

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with aclosing(super()._auth_flow(request)) as flow:
            with suppress(StopAsyncIteration):
                outgoing = await anext(flow)
                while True:
                    if outgoing is not request:
                        outgoing.extensions = {**request.extensions, LOGIN_KEY: True}
                    outgoing = await flow.asend((yield outgoing))

    async def _exchange_token_authorization_code(
        self, auth_code: str, code_verifier: str
    ) -> httpx2.Request:
        request = await super()._exchange_token_authorization_code(auth_code, code_verifier)
        request.headers["accept"] = "application/json"
        return request

    async def _refresh_token(self) -> httpx2.Request:
        request = await super()._refresh_token()
        request.headers["accept"] = "application/json"
        return request


class _StoredLogin(_TokenRequests):
    """Adds the token of an earlier login to requests, and renews it.

    When a server refuses the token, the SDK would read the server's documents, and register at the
    host that they name. Without a person, no server may send the gateway to hosts of its choice,
    or change the stored registration.

    Args:
        spec: the server.
        storage: storage of the tokens.
    """

    def __init__(self, spec: ServerSpec, storage: LoginStorage) -> None:
        metadata = _client_metadata(spec, "http://127.0.0.1/callback")
        super().__init__(spec.url or "", metadata, storage)
        self._server = spec.name
        self._storage = storage
        _use_stored_login(self, storage)

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self._renewal(), aclosing(super()._auth_flow(request)) as flow:
            outgoing = await anext(flow)
            while outgoing is not request:
                outgoing = await flow.asend((yield outgoing))
        # The lock of the SDK's flow is free here: no call waits for the answer to another one.
        response = yield request
        if response.status_code == _UNAUTHORIZED_STATUS and await self._take_newer_token():
            self._add_auth_header(request)
            response = yield request
        if response.status_code == _UNAUTHORIZED_STATUS:
            raise ConsentNeeded(self._server)

    async def _take_newer_token(self) -> bool:
        """Whether another process has stored a newer token, which is used from now on.

        Some authorization servers end an access token when it is renewed.
        """
        sent = self.context.current_tokens
        await anyio.to_thread.run_sync(self._storage.reload)
        stored = self._storage.login.tokens
        if stored is None or (sent is not None and stored.access_token == sent.access_token):
            return False
        _use_stored_login(self, self._storage)
        return self.context.is_token_valid()

    @asynccontextmanager
    async def _renewal(self) -> AsyncIterator[None]:
        """Only one process of the user renews an ended token.

        Authorization servers that rotate refresh tokens end the login when one is used twice.
        """
        if self.context.is_token_valid():
            yield
            return
        async with _renewal_lock(self._storage.user):
            await anyio.to_thread.run_sync(self._storage.reload)
            _use_stored_login(self, self._storage)
            self._initialized = False
            yield


@asynccontextmanager
async def _renewal_lock(user: str) -> AsyncIterator[None]:
    """Waits until no other process renews a login; not longer than `_RENEWAL_TIMEOUT_S`."""
    from filelock import FileLock, Timeout

    name = hashlib.sha256(user.encode()).hexdigest()[:16]
    try:
        path = own_folder(state_folder() / "logins") / f"{name}.lock"
    except OSError:
        yield  # a file system that cannot be written: other processes cannot be seen
        return
    lock = FileLock(path, mode=0o600, thread_local=False)
    deadline = anyio.current_time() + _RENEWAL_TIMEOUT_S
    while not lock.is_locked and anyio.current_time() < deadline:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            await anyio.sleep(_RENEWAL_POLL_S)
    try:
        yield
    finally:
        lock.release()


class _PinnedScopes(OAuthClientMetadata):
    """What a registration says of this program, with the scopes of the configuration.

    The SDK would replace them by those that the server names.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope":
            super().__setattr__(name, value)


class _Issuer(str):
    """An authorization server. `https://a.example` and `https://a.example/` are the same one.

    Google's servers name it with the slash, and its metadata without; the SDK compares the texts.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and issuers_match(str(self), str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


class InteractiveLogin(_TokenRequests):
    """Adds tokens to requests, renews them, and starts a login if there are none.

    The client is the configured one. Otherwise the SDK takes the metadata document if the
    authorization server accepts it, and registers this program if not.

    Args:
        spec: the server.
        storage: storage of the tokens.
        redirect_address: page for the redirect of the authorization server.
        show_page: function that shows a page of the authorization server.
        wait_for_redirect: function that waits for the redirect.
    """

    def __init__(
        self,
        spec: ServerSpec,
        storage: LoginStorage,
        redirect_address: str,
        show_page: Callable[[str], Awaitable[None]],
        wait_for_redirect: Callable[[], Awaitable[AuthorizationCodeResult]],
    ) -> None:
        super().__init__(
            spec.url or "",
            _client_metadata(spec, redirect_address),
            storage,
            show_page,
            wait_for_redirect,
            client_metadata_url=spec.login.client_metadata_url,
        )
        self._spec = spec
        self._earlier = storage.login
        if not _is_reusable(storage, redirect_address):
            storage.login = storage.login.model_copy(update={"client": None})
        _use_stored_login(self, storage)

    def _expected_issuer(self) -> str:
        return _Issuer(super()._expected_issuer())

    async def _perform_authorization(self) -> httpx2.Request:
        metadata = self.context.oauth_metadata
        if metadata is not None:
            self._check_addresses(metadata)
        if client := configured_client(self._spec.login, metadata):
            self._check_issuer(metadata)
            self.context.client_info = client
        return await super()._perform_authorization()

    def _check_addresses(self, metadata: OAuthMetadata) -> None:
        """Neither the browser nor a code goes where the login's own requests may not go."""
        server = ServerAddress.of(url_without_user(self._spec.url or ""))
        for address in (metadata.authorization_endpoint, metadata.token_endpoint):
            server.check_leads_to(ServerAddress.of(str(address)))

    def _check_issuer(self, metadata: OAuthMetadata | None) -> None:
        """A configured client was registered at one authorization server: the first one used."""
        earlier = self._earlier.metadata
        if earlier is None or (metadata is not None and metadata.issuer == earlier.issuer):
            return
        present = "none" if metadata is None else str(metadata.issuer)
        raise ConfigError(
            f"its authorization server was {earlier.issuer} at the last login and is {present} "
            f"now; if that is right, run shortlist auth logout {self._spec.name} first"
        )


def _is_reusable(storage: LoginStorage, redirect_address: str) -> bool:
    """Whether the stored client serves for another login."""
    client, metadata = storage.login.client, storage.login.metadata
    if client is None or storage.client_kind != "registered":
        return True
    takes_documents = metadata is not None and metadata.client_id_metadata_document_supported
    if takes_documents and storage.settings.client_metadata_url is not None:
        return False
    return redirect_address in map(str, client.redirect_uris or ())


def _client_metadata(spec: ServerSpec, redirect_address: str) -> OAuthClientMetadata:
    kind = _PinnedScopes if spec.login.scopes else OAuthClientMetadata
    return kind.model_validate(
        {
            "redirect_uris": [redirect_address],
            "client_name": _CLIENT_NAME,
            "token_endpoint_auth_method": "none",
            "grant_types": _GRANT_TYPES,
            "scope": " ".join(spec.login.scopes) or None,
        }
    )


def _use_stored_login(provider: OAuthClientProvider, storage: LoginStorage) -> None:
    """Give the provider all of the stored login.

    The SDK does not load all of it. Without the rest, an expired token would not be renewed.
    """
    provider.context.current_tokens = storage.login.tokens
    provider.context.token_expiry_time = storage.login.expires_at
    provider.context.oauth_metadata = storage.login.metadata
    provider.context.protected_resource_metadata = storage.login.resource
    storage.provider_context = provider.context
