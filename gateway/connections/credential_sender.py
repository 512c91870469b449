"""The one way in which the credentials of a server leave the gateway.

A document, a redirect or a server's message may name an address, but no request goes to another
host, and none takes its credentials from an address. The configured credentials are set last.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Awaitable, Callable
from http.cookiejar import CookieJar
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx2

from ...catalog.security import RequestCredentials
from .masking import CredentialMask
from .server_spec import ServerSpec

#: Extension of a request with the credentials that only this request is sent with.
CREDENTIALS_KEY = "shortlist.credentials"
#: Extension that marks a request of a login: its answer has a lower limit.
LOGIN_KEY = "shortlist.login"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class UnsafeAddressError(httpx2.RequestError):
    """A request that is not sent because of its address; the message says why."""


class ServerAddress(NamedTuple):
    """Scheme, host and port of an address without user information."""

    scheme: str
    host: str
    port: int | None

    @classmethod
    def of(cls, url: str) -> Self:
        """The address in a URL.

        Raises:
            UnsafeAddressError: it is no URL, or has user information (`name:password@`).
        """
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            raise UnsafeAddressError("the address is not valid") from None
        if "@" in parts.netloc:
            raise UnsafeAddressError(
                "the address has user information, which would replace the configured credentials"
            )
        return cls(parts.scheme, (parts.hostname or "").lower(), port)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"

    def is_upgraded_to(self, other: ServerAddress) -> bool:
        """Whether the other is the same host with encryption."""
        schemes_and_ports = (self.scheme, self.port, other.scheme, other.port)
        return self.host == other.host and schemes_and_ports == ("http", 80, "https", 443)

    def check_leads_to(self, other: ServerAddress) -> None:
        """Check that a server may lead a login to another address: its documents name any.

        Otherwise a server could have requests sent, and pages opened, that reach what only this
        machine or its network can reach. A name is not resolved: over https, a host that a name
        was bent to lacks the certificate.

        Raises:
            UnsafeAddressError: it is plain http, though the server itself has https, or nearer to
                this machine than the server.
        """
        if other.scheme not in ("https", self.scheme):
            kind = "plain http" if other.scheme == "http" else f"{other.scheme:.20}:"
            raise UnsafeAddressError(
                f"its login leads to {kind} at {other.host:.200}; ask its operator for https"
            )
        if _nearness(other.host) > _nearness(self.host):
            raise UnsafeAddressError(
                f"its login leads to {other.host:.200}, in this machine or its network, where the "
                "server itself is not; if that is right, use an address of the server in there"
            )


def _nearness(host: str) -> int:
    """2 for this machine and its links, 1 for addresses of a network of its own, 0 for others."""
    if host.rstrip(".").rpartition(".")[2] == "localhost":
        return 2
    try:
        address = ip_address(host)
    except ValueError:
        try:
            # Forms such as 127.1 and 2130706433, which connections take too.
            address = ip_address(socket.inet_aton(host))
        except OSError:
            return 0
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback or address.is_unspecified or address.is_link_local:
        return 2
    return 0 if address.is_global else 1


def url_without_user(url: str) -> str:
    """A configured URL without its user information, which `sending_client` sends as a header."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def sending_client(
    spec: ServerSpec,
    mask: CredentialMask,
    *,
    on_response: Callable[[httpx2.Response], Awaitable[None]],
    on_request: Callable[[httpx2.Request], Awaitable[None]] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    cookies: CookieJar | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client that sends the requests of one server with its credentials.

    Args:
        spec: the server.
        mask: learns the credentials that are sent.
        on_response: called with each answer before it is read.
        on_request: called with each request before its credentials are set.
        timeout: time limits.
        auth: a login. Its own requests may go to other hosts, without the configured headers; see
            `ServerAddress.check_leads_to`.
        cookies: where cookies are kept.
    """
    own_address = ServerAddress.of(url_without_user(spec.url or ""))
    credentials = httpx2.Headers(_basic_credentials(spec.url or "") | spec.revealed_headers())

    async def set_credentials(request: httpx2.Request) -> None:
        if on_request is not None:
            await on_request(request)
        address = ServerAddress.of(str(request.url))
        if address == own_address or own_address.is_upgraded_to(address):
            own = request.extensions.get(CREDENTIALS_KEY)
            if isinstance(own, RequestCredentials):
                request.url = httpx2.URL(own.url(str(request.url)))
                request.headers.update(own.all_headers(request.headers.get("cookie", "")))
            request.headers.update(credentials)
            mask.add_header(request.headers.get("authorization", ""))
        elif auth is None:
            raise UnsafeAddressError(f"the address has another host: {address!s:.200}")
        else:
            own_address.check_leads_to(address)
            for name in credentials:
                request.headers.pop(name, None)

    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [set_credentials],
        "response": [on_response],
    }
    return httpx2.AsyncClient(timeout=timeout, auth=auth, cookies=cookies, event_hooks=hooks)


def _basic_credentials(url: str) -> dict[str, str]:
    """The header for the user information of the configured URL."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return {}
    user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
