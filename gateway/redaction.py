"""Masks secrets of the configuration in messages about servers."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from .masking import MASK, is_harmless
from .server_spec import ServerSpec

#: Least length of a secret in characters. Shorter values are `1`, `true` or `prod`.
_SHORTEST = 6


def redacted(text: str, spec: ServerSpec) -> str:
    """The text with every secret of a server's configuration masked.

    Args:
        text: a message, such as an error's.
        spec: the server of the message.

    Example:
        >>> spec = ServerSpec(name="a", transport="http", url="http://host/key-1234567/mcp")
        >>> redacted("401 for http://host/key-1234567/mcp", spec)
        '401 for http://host/***'
    """
    for secret in sorted(set(_secrets(spec)), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _secrets(spec: ServerSpec) -> Iterator[str]:
    values = [*spec.plain_env().values(), *spec.plain_headers().values()]
    # Of `Bearer TOKEN`, a message may quote only the token.
    values += [word for value in spec.plain_headers().values() for word in value.split()]
    before = ["", *spec.args]
    values += [
        one for last, one in zip(before, spec.args, strict=False) if not is_harmless(one, last)
    ]
    if spec.url is not None:
        parts = urlsplit(spec.url)
        values += [parts.path.lstrip("/"), parts.query, parts.username or "", parts.password or ""]
        values += [word for word in parts.path.split("/") if not is_harmless(word)]
    return (value for value in values if len(value) >= _SHORTEST)
