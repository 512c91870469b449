"""Masks secrets: in server entries that are shown, in messages about servers, in their answers."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import mcp.types as types

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
_SECRET_NAME = re.compile(r"token|key|secret|pass|pwd|auth|cred|header|bearer|cookie|dsn", re.I)
_REFERENCE = re.compile(r"\$?\{[^{}]*\}|\$[A-Z][A-Z0-9_]*")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w-]*")
_PACKAGE = re.compile(r"@?[\w.-]+(/[\w.-]+)*(@[\w.^~-]+)?")
_PATH = re.compile(r"(~|\.{0,2})/[^\s?=&:]*|[A-Za-z]:\\[^\s?=&]*")
#: Values of variables such as a level, `production` or `ls,cat`.
_WORDS = re.compile(r"[A-Za-z]+(,\s?[A-Za-z]+)*")


def masked_entry(entry: Any, key: str = "") -> Any:
    """A server's entry. Every value that may be a secret is masked.

    Not masked are values of keys without secrets (`command`, `type`, ...), references, arguments
    that `is_harmless` accepts, and variables with a path or plain words whose names say nothing of
    a secret. An address keeps scheme, host and port.
    """
    if isinstance(entry, Mapping):
        if key == "env":
            return {
                name: value
                if isinstance(value, str) and _is_plain_variable(str(name), value)
                else masked_entry(value, key)
                for name, value in entry.items()
            }
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
    if _FLAG.fullmatch(previous) and _SECRET_NAME.search(previous):
        return False
    if _is_plain_address(argument) or _is_path(argument):
        return True
    name, equals, value = argument.partition("=")
    if equals:
        return _is_path(value) and not _SECRET_NAME.search(name)
    return bool(_PACKAGE.fullmatch(argument)) and not _has_random_part(argument)


def _is_plain_variable(name: str, value: str) -> bool:
    """Whether a variable has a path, or plain words under a name that says nothing of a secret."""
    if _is_path(value):
        return True
    is_word = bool(_WORDS.fullmatch(value)) and not _has_random_part(value)
    return is_word and not _SECRET_NAME.search(name)


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text)) and not _has_random_part(text)


def _has_random_part(text: str) -> bool:
    return any(map(_looks_random, re.split(r"[/@\\,]", text)))


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
    values = [
        value for name, value in spec.revealed_env().items() if not _is_plain_variable(name, value)
    ]
    values += spec.revealed_headers().values()
    if spec.login.client_secret is not None:
        values.append(spec.login.client_secret.get_secret_value())
    for value in spec.revealed_credentials().values():
        values += _credential_forms(value)
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


#: Names whose values are credentials: `GITHUB_TOKEN`, `x-api-key`, `--password`. Not `KEY_FILE`.
_CREDENTIAL_NAME = re.compile(
    r"(?<![a-z])(token|secret|password|passwd|passphrase|pwd|pat|credentials?|dsn|bearer|cookie"
    r"|apikey|key|auth|authorization)s?$",
    re.I,
)
_SCHEMES = frozenset("basic bearer digest negotiate token apikey".split())
#: Least length of a credential of letters only. Shorter ones are words of any answer.
_MIN_WORD_CHARS = 8


class CredentialMask:
    """Masks the credentials of one server in what it answers.

    The other values of an entry, such as a folder in `env`, belong in answers and stay.

    Args:
        spec: the server.

    Example:
        >>> headers = {"Authorization": "Bearer of-this-one"}
        >>> spec = ServerSpec(name="a", transport="http", url="https://host", headers=headers)
        >>> CredentialMask(spec).value({"you sent": ["Bearer of-this-one"]})
        {'you sent': ['***']}
    """

    def __init__(self, spec: ServerSpec) -> None:
        self._headers_added: set[str] = set()
        self._forms: tuple[str, ...] = ()
        self._add(_credentials(spec))

    @property
    def is_empty(self) -> bool:
        """Whether the server has no credentials."""
        return not self._forms

    def add_header(self, value: str) -> None:
        """Mask an `Authorization` header too, such as that of a login."""
        if value not in self._headers_added:
            self._headers_added.add(value)
            self._add(_header_credentials(value))

    def text(self, text: str) -> str:
        """The text without credentials."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def content(self, content: bytes) -> bytes:
        """Bytes without credentials."""
        for form in self._forms:
            content = content.replace(form.encode(), MASK.encode())
        return content

    def value(self, value: Any) -> Any:
        """A JSON value without credentials in its texts and keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        return value

    def message(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """A message of the server without credentials."""
        if isinstance(message, types.JSONRPCResponse):
            return message.model_copy(update={"result": self.value(message.result)})
        if isinstance(message, types.JSONRPCError):
            error = message.error
            changed = {"message": self.text(error.message), "data": self.value(error.data)}
            return message.model_copy(update={"error": error.model_copy(update=changed)})
        return message.model_copy(update={"params": self.value(message.params)})

    def _add(self, credentials: Iterator[str]) -> None:
        forms = set(self._forms)
        for credential in credentials:
            shortest = _MIN_WORD_CHARS if credential.isalpha() else _MIN_SECRET_CHARS
            if len(credential) >= shortest:
                # As it is, in JSON inside a text, and in an address.
                forms |= {credential, json.dumps(credential)[1:-1], quote(credential, safe="")}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _credentials(spec: ServerSpec) -> Iterator[str]:
    for name, value in spec.revealed_headers().items():
        if _is_credential(name, value):
            yield from _header_credentials(value)
    for value in spec.revealed_credentials().values():
        yield from _credential_forms(value)
    for name, value in spec.revealed_env().items():
        if _is_credential(name, value):
            yield value
        yield from _address_credentials(value)
    for previous, argument in zip(["", *spec.args], spec.args, strict=False):
        name, _, value = argument.rpartition("=")
        if _is_credential(name or previous, value):
            yield value
        yield from _address_credentials(value)
    if spec.url is not None:
        yield from _address_credentials(spec.url)
        parts = urlsplit(spec.url)
        yield from (value for _, value in parse_qsl(parts.query))
        yield from (word for word in parts.path.split("/") if _looks_random(word))


def _is_credential(name: str, value: str) -> bool:
    if re.match(r"[~.]{0,2}/|[A-Za-z]:[\\/]", value) or "://" in value:
        return False  # a path, or an address
    return bool(_CREDENTIAL_NAME.search(name)) or all(map(_looks_random, value.split() or [""]))


def _credential_forms(value: str) -> tuple[str, ...]:
    """A credential of an OpenAPI scheme, which may be `NAME:PASSWORD`, as requests contain it."""
    return value, value.partition(":")[2], base64.b64encode(value.encode()).decode()


def _header_credentials(value: str) -> Iterator[str]:
    """The parts of a header's value that an answer may quote."""
    scheme, _, rest = value.partition(" ")
    if scheme.lower() not in _SCHEMES:
        rest = value
    yield value
    yield rest
    yield from (word.partition("=")[2] for word in re.split(r"[;,]\s*", rest))
    if scheme.lower() == "basic":
        try:
            yield base64.b64decode(rest).decode().partition(":")[2]
        except ValueError:
            return


def _address_credentials(text: str) -> Iterator[str]:
    """The password in an address, such as that of a database."""
    if "://" not in text or "@" not in text:
        return
    try:
        password = urlsplit(text).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
