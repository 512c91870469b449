"""One server's entry in a client's file: read from any client's form, written for `mcpServers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from ...errors import ConfigError
from ..connections.server_spec import CALL_TIMEOUT_S, START_TIMEOUT_S, ServerSpec
from .config_file import kind_of_value
from .config_references import References

#: A `timeout` without unit is in milliseconds from this value on, and in seconds below it.
_MIN_MILLISECONDS = 1_000
_TRANSPORTS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "remote": "remote",  # opencode: the address says which
}
#: Keys of an entry that an error names.
_MAX_KEYS_SHOWN = 5
#: Keys that only Cline writes. Its `timeout` is in seconds.
_CLINE_KEYS = ("autoApprove", "alwaysAllow")


class EntryProblem(ConfigError):
    """A server cannot be used because of a field of its entry.

    Args:
        field: key in the entry, with the key or index inside it; empty for the entry itself.
        reason: what is wrong and what to do. It never contains a value.
    """

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}" if field else reason)

    @classmethod
    def of(cls, error: ValidationError) -> EntryProblem:
        """The first error of an entry or of a `ServerSpec`, without the value."""
        first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
        parts = [str(part) for part in first_error["loc"] if part != "[key]"]
        if parts[:1] == ["login"]:
            parts[0] = "oauth"
        message = str(first_error["msg"])
        reason = message.removeprefix("Value error, ")
        reason = reason if reason != message else message[:1].lower() + message[1:]
        return cls(".".join(parts), reason)


def _must_be(kind: Any, words: str) -> BeforeValidator:
    """Refuses a value that is not of a type, and says in words what it must be."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"must be {words}, not {kind_of_value(value)}")
        return value

    return BeforeValidator(check)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else value


def _with_braces(text: str) -> str:
    """Gemini's `$NAME` as `${NAME}`, where it is the whole value."""
    return f"${{{text[1:]}}}" if re.fullmatch(r"\$[A-Z][A-Z0-9_]*", text) else text


def _limit(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ValueError("must be a number above 0")
    return min(value, 1e12)


def _transport(value: Any) -> str:
    kind = value.lower() if isinstance(value, str) else ""
    if kind not in _TRANSPORTS:
        raise ValueError(f"no such transport; use one of: {', '.join(_TRANSPORTS)}")
    return _TRANSPORTS[kind]


def _program(value: Any) -> Any:
    """The program of an entry: one text, opencode's list of words, or Zed's former table."""
    if isinstance(value, Mapping):
        return value
    if value == []:
        raise ValueError("the list is empty; its first item must be the program to start")
    return {"path": value[0], "args": value[1:]} if isinstance(value, list) else {"path": value}


def _document(path: str) -> str:
    if path.startswith(("http://", "https://")):
        raise ValueError("must be a file; download the document and give its path")
    return path


def _tool_lists(value: Any) -> Any:
    """The value of `tools`: a list of tools to use, or the gateway's own table."""
    if isinstance(value, list):
        return {"allow": value}
    return value if isinstance(value, Mapping) and set(value) <= {"allow", "deny"} else {}


# A plain type: half of a surrogate pair is refused by `ServerSpec`, which says where it is.
_Text = Annotated[Any, _must_be(str, "a text"), BeforeValidator(_text)]
_Secret = Annotated[_Text, AfterValidator(_with_braces)]
_Texts = Annotated[tuple[_Text, ...], _must_be(list, "a list of texts")]
_Words = Annotated[
    _Texts, BeforeValidator(lambda value: value.split() if isinstance(value, str) else value)
]
_Table = Annotated[dict[_Text, _Text], _must_be(Mapping, "a table of texts")]
_Secrets = Annotated[dict[_Text, _Secret], _must_be(Mapping, "a table of texts")]
_Switch = Annotated[bool, _must_be(bool, "true or false")]
_Limit = Annotated[float, BeforeValidator(_limit)]
_Milliseconds = Annotated[_Limit, AfterValidator(lambda value: value / 1e3)]
_Variable = Annotated[
    _Text,
    BeforeValidator(lambda value: value.get("name") if isinstance(value, Mapping) else value),
]


def _written(*keys: str | AliasPath, default: Any = None) -> Any:
    """A field under the keys of several clients. The first one that an entry has is used."""
    return Field(default=default, validation_alias=AliasChoices(*keys))


class _Settings(BaseModel):
    """A table in a client's file."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _Program(_Settings):
    path: _Text = _written("path", "command")
    args: _Texts = ()
    env: _Table = {}


class _Login(_Settings):
    """The fields of `LoginSettings`."""

    client_id: _Secret = _written("clientId", "client_id")
    client_secret: _Secret = _written("clientSecret", "client_secret")
    scopes: _Words = _written("scopes", "scope", default=())
    callback_port: Annotated[Any, _must_be(int, "a port")] = _written(
        "callbackPort", "callback_port"
    )
    redirect_uri: _Secret = _written("redirectUri", "callback_url")
    client_metadata_url: _Secret = _written("clientMetadataUrl", "client_metadata_url")


class _ToolLists(_Settings):
    allow: _Texts | None = None
    deny: _Texts = ()


class _Entry(_Settings):
    """The keys of an entry that are read, as each client writes them."""

    type: Annotated[str | None, BeforeValidator(_transport)] = _written("type", "transport")
    command: Annotated[_Program | None, BeforeValidator(_program)] = None
    args: _Texts = ()
    env: _Secrets = {}
    environment: _Secrets = {}
    env_vars: Annotated[tuple[_Variable, ...], _must_be(list, "a list of names")] = ()
    env_file: _Text = _written("envFile", "env_file")
    cwd: _Text = _written("cwd", "working_dir", "workingDirectory", "working_directory")
    http_url: _Text = _written("httpUrl")
    url: _Text = _written("serverUrl", "url")
    openapi: Annotated[_Text, AfterValidator(_document)] = None
    headers: _Secrets = {}
    http_headers: _Secrets = {}
    env_http_headers: _Table = {}
    bearer_token_env_var: _Text = None
    credentials: _Secrets = {}
    oauth: Annotated[
        _Login,
        _must_be(Mapping, "a table of settings"),
        # opencode's `false`: no search for a login
        BeforeValidator(lambda value: {} if isinstance(value, bool) else value),
    ] = _Login()
    scopes: _Words = ()  # Codex
    disabled: _Switch = False
    enabled: _Switch = True
    description: Any = None
    tools: Annotated[_ToolLists, BeforeValidator(_tool_lists)] = _ToolLists()
    allow: _Texts | None = _written("includeTools", "enabled_tools")
    deny: _Texts = _written("excludeTools", "disabled_tools", "disabledTools", default=())
    timeout: Annotated[
        float | None,
        BeforeValidator(lambda value: None if isinstance(value, Mapping) else _limit(value)),
    ] = None
    # Time limits in seconds, by the unit in the file; opencode 2 has a table of them.
    start_ms: _Milliseconds | None = _written(AliasPath("timeout", "startup"), "startup_timeout_ms")
    start_s: _Limit | None = _written("start_timeout_s", "startup_timeout_sec")
    call_ms: _Milliseconds | None = _written(AliasPath("timeout", "execution"))
    call_s: _Limit | None = _written("timeout_s", "tool_timeout_sec")


#: Keys of entries that are read; keys that clients use and the gateway does not; and keys of
#: clients that have no meaning here.
_READ_KEYS = frozenset(
    key
    for name, field in _Entry.model_fields.items()
    for key in (
        field.validation_alias.choices
        if isinstance(field.validation_alias, AliasChoices)
        else (name,)
    )
    if isinstance(key, str)
)
_UNSUPPORTED = ("headersHelper", "auth", "authProviderType")
_OTHER_KEYS = frozenset(
    "source settings name version scope trust required alwaysLoad deferTools codemode gallery "
    "autoApprove alwaysAllow transportType extension extensionName experimental_environment "
    "oauth_resource watchPaths remote dev sandbox".split()
).union(_UNSUPPORTED)


def read_entry(name: str, entry: Any, folder: Path, *, is_opencode: bool = False) -> ServerSpec:
    """A server from its entry in a client's file. References are not expanded.

    Args:
        name: name of the server.
        entry: the entry, with references in the form of `References`.
        folder: folder that relative paths start from.
        is_opencode: whether the file is opencode's, whose `timeout` has a meaning of its own.

    Raises:
        EntryProblem: a field is missing or wrong.
    """

    def path(text: str | None) -> str | None:
        return text if not text or text.startswith(("~", "${")) else str(folder / text)

    if not isinstance(entry, Mapping):
        raise EntryProblem("", f"must be a table of settings, not {kind_of_value(entry)}")
    try:
        read = _Entry.model_validate(_without_null(entry))
        program = read.command or _Program()
        if read.command is None and entry.get("source") == "extension":
            raise EntryProblem(
                "command", "an extension of the editor starts this server; give the command it runs"
            )
        headers = {**read.http_headers, **read.headers}
        headers |= {header: f"${{{name}}}" for header, name in read.env_http_headers.items()}
        if read.bearer_token_env_var is not None:
            headers["Authorization"] = f"Bearer ${{{read.bearer_token_env_var}}}"
        has_description = isinstance(read.description, str) and read.description.strip()
        fields: dict[str, Any] = {
            "transport": _transport_of(read, entry),
            "command": program.path,
            "args": program.args + read.args,
            "env": {
                **program.env,
                **{variable: f"${{{variable}:-}}" for variable in read.env_vars},
                **read.environment,
                **read.env,
            },
            "env_file": path(read.env_file) or None,
            "cwd": path(read.cwd) or None,
            "url": read.url if read.http_url is None else read.http_url,
            "openapi": path(read.openapi) or None,
            "headers": headers,
            "credentials": read.credentials,
            "login": read.oauth.model_dump() | {"scopes": read.oauth.scopes or read.scopes},
            "disabled": read.disabled or not read.enabled,
            "description": read.description if has_description else None,
            "tools": {
                "allow": read.tools.allow if read.allow is None else read.allow,
                "deny": (*read.tools.deny, *read.deny),
            },
            **_time_limits(read, entry, is_opencode=is_opencode),
        }
        return ServerSpec(name=name, **fields)
    except ValidationError as error:
        raise EntryProblem.of(error) from None


def _without_null(value: Any) -> Any:
    """The value, in whose tables a key with null counts as missing."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without_null(item) for key, item in value.items() if item is not None}


def _transport_of(read: _Entry, entry: Mapping[str, Any]) -> str:
    if read.openapi:
        return "openapi"
    if read.type not in (None, "remote"):
        return str(read.type)
    if read.type is None and read.command is not None:
        return "stdio"
    if read.http_url is not None:
        return "http"
    if read.url is None:
        keys = ", ".join(repr(str(key)[:40]) for key in islice(entry, _MAX_KEYS_SHOWN))
        present = f"; its keys: {keys}" if keys else ""
        raise EntryProblem("", f"has neither `command` nor `url`; add one of them{present}")
    return "sse" if read.url.split("?")[0].rstrip("/").endswith("/sse") else "http"


def _time_limits(read: _Entry, entry: Mapping[str, Any], *, is_opencode: bool) -> dict[str, float]:
    """Fields of `ServerSpec`. A key with a unit counts before `timeout`."""
    start, call = read.start_ms, read.call_ms
    if (timeout := read.timeout) is not None:
        if is_opencode:  # for listing the tools
            start = timeout / 1e3
        elif timeout < _MIN_MILLISECONDS or any(key in entry for key in _CLINE_KEYS):
            call = timeout
        else:
            call = timeout / 1e3
    limits = {"start_timeout_s": read.start_s or start, "timeout_s": read.call_s or call}
    return {field: limit for field, limit in limits.items() if limit is not None}


def key_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys that are not read although somebody may expect it, and why."""
    for key in _UNSUPPORTED:
        if entry.get(key) not in (None, "oauth"):
            yield key, "not supported; the server is reached without it"
    for key in map(str, entry.keys() - _READ_KEYS - _OTHER_KEYS):
        if nearest := get_close_matches(key[:80], sorted(_READ_KEYS), 1, 0.75):
            yield key, f"no such key, so it is not read; write `{nearest[0]}`"


def mcp_servers_entry(spec: ServerSpec) -> dict[str, Any]:
    """The entry of a server under `mcpServers`; secrets in plain text.

    `read_entry` reads the same spec from it.
    """
    if spec.transport == "stdio":
        entry: dict[str, Any] = {"command": spec.command, "args": list(spec.args)}
    elif spec.transport == "openapi":
        entry = {"openapi": spec.openapi, "url": spec.url}
    else:
        entry = {"type": spec.transport, "url": spec.url}
    login, secret = spec.login, spec.login.client_secret
    oauth = {
        "clientId": login.client_id,
        "clientSecret": None if secret is None else secret.get_secret_value(),
        "scopes": list(login.scopes),
        "callbackPort": login.callback_port,
        "redirectUri": login.redirect_uri,
        "clientMetadataUrl": login.client_metadata_url,
    }
    optional = {
        "headers": spec.revealed_headers(),
        "credentials": spec.revealed_credentials(),
        "oauth": {key: value for key, value in oauth.items() if value},
        "env": spec.revealed_env(),
        "envFile": spec.env_file,
        "cwd": spec.cwd,
        "description": spec.description,
        "disabled": spec.disabled,
        "timeout_s": spec.timeout_s if spec.timeout_s != CALL_TIMEOUT_S else None,
        "start_timeout_s": spec.start_timeout_s
        if spec.start_timeout_s != START_TIMEOUT_S
        else None,
        "tools": spec.tools.model_dump(exclude_defaults=True),
    }
    return entry | {key: value for key, value in optional.items() if value}


def expanded_spec(spec: ServerSpec, references: References) -> ServerSpec:
    """A server with its references replaced by their values. A disabled server is not changed.

    Raises:
        EntryProblem: names the field and the reference that has no value.
    """
    if spec.disabled:
        return spec

    def expand_line(text: str) -> str:
        return references.expand(text).strip()

    fields = dict(spec)
    for names, expand in (
        (("command", "args", "cwd", "env_file", "openapi"), references.expand_path),
        (("url", "headers", "credentials", "login"), expand_line),
        (("env",), references.expand),
    ):
        for name in names:
            fields[name] = _expanded(fields[name], "oauth" if name == "login" else name, expand)
    fields["login"]["scopes"] = " ".join(fields["login"]["scopes"]).split()
    env_file = fields.pop("env_file")
    if env_file is not None:
        fields["env"] = _expanded(env_file, "env_file", references.env_file) | fields["env"]
    try:
        return ServerSpec(**fields)
    except ValidationError as error:
        raise EntryProblem.of(error) from None


def _expanded(value: Any, field: str, expand: Callable[[str], Any]) -> Any:
    """A value of a field with the references in all its texts expanded."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, str):
        try:
            return expand(value)
        except ConfigError as error:
            raise EntryProblem(field, str(error)) from None
    if isinstance(value, BaseModel | Mapping):
        return {key: _expanded(item, f"{field}.{key}", expand) for key, item in dict(value).items()}
    if isinstance(value, tuple):
        return tuple(_expanded(item, f"{field}.{at}", expand) for at, item in enumerate(value))
    return value
