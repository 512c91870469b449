"""Masks secrets: in server entries before they are shown, and in messages about servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from .server_spec import ServerSpec, address_without_secrets

MASK = "***"
#: Keys whose values are shown; every other text is masked.
_SHOWN_KEYS = frozenset(
    "type transport command path openapi cwd working_dir source description deferTools "
    "bearer_token_env_var envFile env_file clientId client_id".split()
)
#: Keys whose lists of texts are names.
_KEYS_WITH_NAMES = frozenset(
    "tools allow deny includeTools excludeTools enabled_tools disabled_tools disabledTools "
    "env_vars autoApprove alwaysAllow scopes".split()
)
_ADDRESS_KEYS = frozenset(
    "url httpUrl serverUrl redirectUri callback_url clientMetadataUrl client_metadata_url".split()
)
_SECRET_FLAG = re.compile(r"token|key|secret|passw|pwd|auth|cred|header|bearer|cookie|dsn", re.I)
_REFERENCE = re.compile(r"\$?\{[^{}]*\}|\$[A-Z][A-Z0-9_]*")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")
_PACKAGE_OR_PATH = re.compile(
    r"@?[\w.-]+(/[\w.-]+)*(@[\w.^~-]+)?|(~|\.{0,2})/[^\s?=&:]*|[A-Za-z]:\\[^\s?=&]*"
)


def masked_entry(entry: Any, key: str = "") -> Any:
    """A server's entry. Every value that may be a secret is masked.

    Not masked are values of keys without secrets (`command`, `type`, ...), references, and
    arguments that `is_harmless` accepts. An address keeps scheme, host and port.
    """
    if isinstance(entry, Mapping):
        # Users choose the names inside `env` and `headers`: there, `command` may contain a secret.
        has_fixed_keys = key in ("", "command", "tools", "oauth")
        return {
            name: masked_entry(value, str(name) if has_fixed_keys else key)
            for name, value in entry.items()
        }
    if isinstance(entry, list):
        if key in ("args", "command"):
            return masked_arguments(entry)
        return [item if key in _KEYS_WITH_NAMES else masked_entry(item) for item in entry]
    if isinstance(entry, bool) or entry is None:
        return entry
    if not isinstance(entry, str):
        return entry if re.search("timeout|[pP]ort$", key) else MASK
    if key in _SHOWN_KEYS or _REFERENCE.fullmatch(entry):
        return entry
    if key in _ADDRESS_KEYS:
        return entry if _is_plain_address(entry) else f"{address_without_secrets(entry)}/{MASK}"
    return MASK


def masked_arguments(arguments: Sequence[Any]) -> list[Any]:
    """Arguments of a command. Those that may be secrets are masked."""
    previous_arguments = ["", *arguments]
    return [
        argument if is_harmless(str(argument), str(previous)) else MASK
        for previous, argument in zip(previous_arguments, arguments, strict=False)
    ]


def is_harmless(argument: str, previous: str = "") -> bool:
    """Whether an argument is certainly no secret: a flag, a package, a path or a reference.

    Args:
        argument: the argument.
        previous: the argument before it; after `--api-key` everything may be a secret.
    """
    if _REFERENCE.fullmatch(argument) or _FLAG.fullmatch(argument):
        return True
    if _FLAG.fullmatch(previous) and _SECRET_FLAG.search(previous):
        return False
    if _is_plain_address(argument):
        return True
    return bool(_PACKAGE_OR_PATH.fullmatch(argument)) and not any(
        map(_looks_random, re.split(r"[/@\\]", argument))
    )


def _is_plain_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in text:
        return False
    return not any(map(_looks_random, parts.path.split("/")))


def _looks_random(word: str) -> bool:
    """Whether a word looks like a token: long, with letters and digits mixed, or one long run."""
    is_mixed = bool(re.search(r"\d", word) and re.search(r"[A-Za-z]", word))
    has_version = re.fullmatch(r"[a-z.-]+[\d.-]*", word)  # a package with its version
    return len(word) >= 32 or (len(word) >= 16 and is_mixed and not has_version)


#: Least length of a secret in characters. Shorter values are `1`, `true` or `prod`.
_MIN_SECRET_CHARS = 6


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
    values = [*spec.revealed_env().values(), *spec.revealed_headers().values()]
    if spec.login.client_secret is not None:
        values.append(spec.login.client_secret.get_secret_value())
    # Of `Bearer TOKEN`, a message may quote only the token.
    values += [word for value in spec.revealed_headers().values() for word in value.split()]
    previous_arguments = ["", *spec.args]
    values += [
        argument
        for previous, argument in zip(previous_arguments, spec.args, strict=False)
        if not is_harmless(argument, previous)
    ]
    if spec.url is not None:
        parts = urlsplit(spec.url)
        values += [parts.path.lstrip("/"), parts.query, parts.username or "", parts.password or ""]
        values += [word for word in parts.path.split("/") if not is_harmless(word)]
    return (value for value in values if len(value) >= _MIN_SECRET_CHARS)
