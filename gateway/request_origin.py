"""Host and origin of a request over HTTP, parsed and then compared.

Compared as texts, `127.0.0.1:8765.evil.example` begins like an address of this machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

LOCAL_NAMES: Final = frozenset(("127.0.0.1", "localhost", "[::1]"))
"""Names of this machine in the `Host` of a request, which only a program on it can mean."""
_HOST_PATTERN: Final = r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::([0-9]{1,5}))?"
_HOST: Final = re.compile(_HOST_PATTERN, re.ASCII | re.IGNORECASE)
_ORIGIN: Final = re.compile(f"(https?)://{_HOST_PATTERN}", re.ASCII | re.IGNORECASE)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host's name in lower case, IPv6 in brackets, and its port; None if none is named."""

    name: str
    port: int | None


def host_address(header: str) -> HostAddress | None:
    """The address in a `Host`; None if it is not a name with or without a port."""
    match = _HOST.fullmatch(header)
    return None if match is None else _address(match[1], match[2])


def origin_address(header: str) -> HostAddress | None:
    """The address in an `Origin`, with its port; None if it is no origin of a web page."""
    match = _ORIGIN.fullmatch(header)
    if match is None:
        return None
    address = _address(match[2], match[3])
    return HostAddress(address.name, address.port or _DEFAULT_PORTS[match[1].lower()])


def is_same_host(origin: HostAddress, host: HostAddress) -> bool:
    """Whether a page of an origin was loaded from the host that the request names.

    Behind a proxy the `Host` may have no port, and the proxy's scheme is not known.
    """
    ports = _DEFAULT_PORTS.values() if host.port is None else (host.port,)
    return origin.name == host.name and origin.port in ports


class LocalRequests:
    """ASGI middleware: passes requests that are addressed to this machine, from pages on it.

    A web page whose own name points to this machine is refused. It cannot raise.

    Args:
        app: the application to protect.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        answer = self._refusal(scope) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, scope: Any) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        hosts = [host_address(value) for value in headers.getlist("host")]
        if len(hosts) != 1 or hosts[0] is None or hosts[0].name not in LOCAL_NAMES:
            return PlainTextResponse("answers at 127.0.0.1 and localhost only\n", status_code=421)
        for value in headers.getlist("origin"):
            origin = origin_address(value)
            if origin is None or origin.name not in LOCAL_NAMES:
                return PlainTextResponse("a request from another origin\n", status_code=403)
        return None


def _address(name: str, port: str | None) -> HostAddress:
    return HostAddress(name.lower(), int(port) if port else None)
