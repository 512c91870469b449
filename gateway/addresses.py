"""Addresses of resources for clients. Each contains the name of the server.

A resource `repo://octo/readme` of the server `github` is `shortlist://github/repo://octo/readme` to
a client. `ui://` addresses keep their scheme, because clients know user interfaces by it:
`ui://panel` is `ui://github/panel`. Both can be converted back, and no two resources share an
address.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp.types as types

_SCHEME, _UI = "shortlist://", "ui://"


def public_uri(server: str, uri: str) -> str:
    """The address of a server's resource, or template of addresses, as clients see it.

    Args:
        server: name of the server.
        uri: the server's address of the resource.

    Example:
        >>> public_uri("my files", "file:///{path}")
        'shortlist://my%20files/file:///{path}'
    """
    name = quote(server, safe="", errors="surrogatepass")
    if uri.startswith(_UI):
        return f"{_UI}{name}/{uri.removeprefix(_UI)}"
    return f"{_SCHEME}{name}/{uri}"


def server_and_uri(uri: str) -> tuple[str, str] | None:
    """The server and its own address of a resource; None if clients have no such address.

    Example:
        >>> server_and_uri("shortlist://my%20files/file:///notes")
        ('my files', 'file:///notes')
    """
    for scheme, own in ((_SCHEME, ""), (_UI, _UI)):
        if uri.startswith(scheme):
            name, slash, rest = uri.removeprefix(scheme).partition("/")
            return (unquote(name, errors="surrogatepass"), own + rest) if slash else None
    return None


def with_public_links(server: str, content: list[types.ContentBlock]) -> list[types.ContentBlock]:
    """Content of a result, with its links to resources as addresses for the client.

    Args:
        server: name of the server that gave the result.
        content: content of the result.
    """
    return [_with_public_link(server, part) for part in content]


def _with_public_link(server: str, part: types.ContentBlock) -> types.ContentBlock:
    if isinstance(part, types.ResourceLink):
        return part.model_copy(update={"uri": public_uri(server, part.uri)})
    if isinstance(part, types.EmbeddedResource):
        held = part.resource
        moved = held.model_copy(update={"uri": public_uri(server, held.uri)})
        return part.model_copy(update={"resource": moved})
    return part
