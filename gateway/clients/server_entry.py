"""One server's entry in a client's file: read from any client's form, written for `mcpServers`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError

from ...errors import ConfigError
from ..connections.server_spec import (
    CALL_TIMEOUT_S,
    START_TIMEOUT_S,
    LoginSettings,
    ServerSpec,
    TransportName,
)
from .config_file import kind_of_value
from .config_references import References

#: A `timeout` without unit is in milliseconds from this value on, and in seconds below it.
_MIN_MILLISECONDS = 1_000
_TRANSPORTS: Mapping[str, TransportName | None] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "https": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "remote": None,  # opencode: the address says which
}
#: Keys of an entry that an error names.
_MAX_KEYS_SHOWN = 5
#: Keys that only Cline writes. Its `timeout` is in seconds.
_CLINE_KEYS = ("autoApprove", "alwaysAllow")
#: Field of `LoginSettings` to its keys below `oauth`: as in Claude Code, VS Code and opencode, then
#: as in Codex. The first one that has a value is used.
_LOGIN_KEYS = {
    "client_id": ("clientId", "client_id"),
    "client_secret": ("clientSecret", "client_secret"),
    "redirect_uri": ("redirectUri", "callback_url"),
    "client_metadata_url": ("clientMetadataUrl", "client_metadata_url"),
}
_CALLBACK_PORT_KEYS = ("callbackPort", "callback_port")
#: Keys of time limits, their field of `ServerSpec`, and seconds per unit. The last one is used.
_TIMEOUT_KEYS = (
    ("startup_timeout_ms", "start_timeout_s", 1e-3),
    ("startup_timeout_sec", "start_timeout_s", 1.0),
    ("start_timeout_s", "start_timeout_s", 1.0),
    ("tool_timeout_sec", "timeout_s", 1.0),
    ("timeout_s", "timeout_s", 1.0),
)


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
        """The first error of a `ServerSpec`, without the value."""
        first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first_error["loc"] if part != "[key]")
        message = str(first_error["msg"])
        reason = message.removeprefix("Value error, ")
        return cls(field, reason if reason != message else message[:1].lower() + message[1:])


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
    if not isinstance(entry, Mapping):
        raise EntryProblem("", "must be a table of settings")
    command, args, command_env = _read_command(entry)
    url_key, url = _first_value(entry, "httpUrl", "serverUrl", "url")
    if url is not None:
        url = _text(url_key, url)
    openapi = _read_path(entry, folder, "openapi")
    if openapi and str(entry["openapi"]).startswith(("http://", "https://")):
        raise EntryProblem("openapi", "must be a file; download the document and give its path")
    description = entry.get("description")
    fields = {
        "transport": "openapi" if openapi else _read_transport(entry, command, url, url_key),
        "command": command,
        "args": args,
        "env": {**command_env, **_read_env(entry)},
        "env_file": _read_path(entry, folder, "envFile", "env_file"),
        "cwd": _read_path(
            entry, folder, "cwd", "working_dir", "workingDirectory", "working_directory"
        ),
        "url": url,
        "openapi": openapi,
        "headers": _read_headers(entry),
        "credentials": _with_braces(_table(entry, "credentials")),
        "login": _read_login(entry),
        "disabled": _read_switch(entry, "disabled", False)
        or not _read_switch(entry, "enabled", True),
        "description": description
        if isinstance(description, str) and description.strip()
        else None,
        "tools": _read_tool_filter(entry),
        **_read_timeouts(entry, is_opencode=is_opencode),
    }
    try:
        return ServerSpec(name=name, **fields)
    except ValidationError as error:
        raise EntryProblem.of(error) from None


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
    tools = {"deny": list(spec.tools.deny)} if spec.tools.deny else {}
    if spec.tools.allow is not None:
        tools = {"allow": list(spec.tools.allow), **tools}
    optional = {
        "headers": spec.revealed_headers(),
        "credentials": spec.revealed_credentials(),
        "oauth": _login_entry(spec.login),
        "env": spec.revealed_env(),
        "envFile": spec.env_file,
        "cwd": spec.cwd,
        "description": spec.description,
        "disabled": spec.disabled,
        "timeout_s": spec.timeout_s if spec.timeout_s != CALL_TIMEOUT_S else None,
        "start_timeout_s": spec.start_timeout_s
        if spec.start_timeout_s != START_TIMEOUT_S
        else None,
        "tools": tools,
    }
    return entry | {key: value for key, value in optional.items() if value}


def expanded_spec(spec: ServerSpec, references: References) -> ServerSpec:
    """A server with its references replaced by their values. A disabled server is not changed.

    Raises:
        EntryProblem: names the field and the reference that has no value.
    """
    if spec.disabled:
        return spec

    def expand(field: str, text: str, expand_text: Callable[[str], Any] = references.expand) -> Any:
        try:
            return expand_text(text)
        except ConfigError as error:
            raise EntryProblem(field, str(error)) from None

    fields: dict[str, Any] = dict(spec)
    for field in ("command", "cwd", "env_file", "openapi"):
        if fields[field] is not None:
            fields[field] = expand(field, fields[field], references.expand_path)
    if spec.url is not None:
        fields["url"] = expand("url", spec.url).strip()
    fields["args"] = tuple(
        expand(f"args.{index}", argument, references.expand_path)
        for index, argument in enumerate(spec.args)
    )
    fields["headers"] = {
        name: expand(f"headers.{name}", value).strip()
        for name, value in spec.revealed_headers().items()
    }
    fields["credentials"] = {
        name: expand(f"credentials.{name}", value).strip()
        for name, value in spec.revealed_credentials().items()
    }
    login = spec.login.model_dump()
    for field in _LOGIN_KEYS:
        if login[field] is not None:
            value = login[field]
            text = value.get_secret_value() if isinstance(value, SecretStr) else value
            login[field] = expand(f"oauth.{field}", text).strip()
    login["scopes"] = tuple(expand("oauth.scopes", " ".join(login["scopes"])).split())
    fields["login"] = _login_settings(login)
    env_file = fields.pop("env_file")
    fields["env"] = {} if env_file is None else expand("env_file", env_file, references.env_file)
    for name, value in spec.revealed_env().items():
        fields["env"][name] = expand(f"env.{name}", value)
    try:
        return ServerSpec(**fields)
    except ValidationError as error:
        raise EntryProblem.of(error) from None


def _first_value(entry: Mapping[str, Any], *keys: str) -> tuple[str, Any]:
    """The first key that has a value, and the value."""
    for key in keys:
        if entry.get(key) is not None:
            return key, entry[key]
    return keys[0], None


def _text(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str):
        raise EntryProblem(field, f"must be a text, not {kind_of_value(value)}")
    return value


def _texts(field: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise EntryProblem(field, f"must be a list of texts, not {kind_of_value(value)}")
    return tuple(_text(f"{field}.{index}", item) for index, item in enumerate(value))


def _table(entry: Mapping[str, Any], field: str) -> dict[str, str]:
    value = entry.get(field)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise EntryProblem(field, f"must be a table of texts, not {kind_of_value(value)}")
    return {key: _text(f"{field}.{key}", item) for key, item in value.items() if item is not None}


def _read_command(entry: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...], dict[str, str]]:
    """Program, arguments and variables of the command."""
    command, args = entry.get("command"), _texts("args", entry.get("args"))
    if isinstance(command, list):  # opencode
        words = _texts("command", command)
        if not words:
            raise EntryProblem(
                "command", "the list is empty; its first item must be the program to start"
            )
        return words[0], words[1:] + args, {}
    if isinstance(command, Mapping):  # Zed, formerly
        path = command.get("path", command.get("command"))
        if path is None:
            raise EntryProblem("command.path", "the program to start is missing; add it")
        command_args = _texts("args", command.get("args"))
        return _text("command.path", path), command_args + args, _table(command, "env")
    if command is None and entry.get("source") == "extension":
        raise EntryProblem(
            "command", "an extension of the editor starts this server; give the command it runs"
        )
    return None if command is None else _text("command", command), args, {}


def _read_transport(
    entry: Mapping[str, Any], command: str | None, url: str | None, url_key: str
) -> TransportName:
    key, declared = _first_value(entry, "type", "transport")
    if declared is not None:
        kind = declared.lower() if isinstance(declared, str) else ""
        if kind not in _TRANSPORTS:
            raise EntryProblem(key, f"no such transport; use one of: {', '.join(_TRANSPORTS)}")
        if transport := _TRANSPORTS[kind]:
            return transport
    elif command is not None:
        return "stdio"
    if url is None:
        keys = ", ".join(repr(str(key)[:40]) for key in islice(entry, _MAX_KEYS_SHOWN))
        present = f"; its keys: {keys}" if keys else ""
        raise EntryProblem("", f"has neither `command` nor `url`; add one of them{present}")
    path = url.split("?")[0].rstrip("/")
    return "sse" if url_key != "httpUrl" and path.endswith("/sse") else "http"


def _read_env(entry: Mapping[str, Any]) -> dict[str, str]:
    inherited: dict[str, str] = {}
    names = entry.get("env_vars") or ()
    if not isinstance(names, list | tuple):
        raise EntryProblem("env_vars", "must be a list of names of variables")
    for index, item in enumerate(names):
        name = item.get("name") if isinstance(item, Mapping) else item
        if not isinstance(name, str):
            raise EntryProblem(f"env_vars.{index}", "must be the name of a variable")
        inherited[name] = f"${{{name}:-}}"
    return inherited | _with_braces({**_table(entry, "environment"), **_table(entry, "env")})


def _read_headers(entry: Mapping[str, Any]) -> dict[str, str]:
    headers = _with_braces({**_table(entry, "http_headers"), **_table(entry, "headers")})
    for header, variable in _table(entry, "env_http_headers").items():
        headers[header] = f"${{{variable}}}"
    if (token := entry.get("bearer_token_env_var")) is not None:
        headers["Authorization"] = f"Bearer ${{{_text('bearer_token_env_var', token)}}}"
    return headers


def _read_login(entry: Mapping[str, Any]) -> LoginSettings:
    oauth = entry.get("oauth")
    if oauth is None or isinstance(oauth, bool):  # opencode's `false`: no search for a login
        oauth = {}
    if not isinstance(oauth, Mapping):
        raise EntryProblem("oauth", f"must be a table of settings, not {kind_of_value(oauth)}")
    fields: dict[str, Any] = {}
    for field, keys in _LOGIN_KEYS.items():
        key, value = _first_value(oauth, *keys)
        if value is not None:
            fields[field] = _with_braces({field: _text(f"oauth.{key}", value)})[field]
    port_key, port = _first_value(oauth, *_CALLBACK_PORT_KEYS)
    if port is not None and (isinstance(port, bool) or not isinstance(port, int)):
        raise EntryProblem(f"oauth.{port_key}", f"must be a port, not {kind_of_value(port)}")
    fields["callback_port"] = port
    scopes_key, scopes = _first_value(oauth, "scopes", "scope")
    scopes_key = f"oauth.{scopes_key}"
    if scopes is None:  # Codex
        scopes_key, scopes = "scopes", entry.get("scopes")
    fields["scopes"] = (
        tuple(scopes.split()) if isinstance(scopes, str) else _texts(scopes_key, scopes)
    )
    return _login_settings(fields)


def _login_settings(fields: Mapping[str, Any]) -> LoginSettings:
    try:
        return LoginSettings(**fields)
    except ValidationError as error:
        problem = EntryProblem.of(error)
        raise EntryProblem(f"oauth.{problem.field}".rstrip("."), problem.reason) from None


def _login_entry(login: LoginSettings) -> dict[str, Any]:
    """The value of `oauth`; the secret in plain text."""
    secret = login.client_secret
    entry = {
        "clientId": login.client_id,
        "clientSecret": None if secret is None else secret.get_secret_value(),
        "scopes": list(login.scopes),
        "callbackPort": login.callback_port,
        "redirectUri": login.redirect_uri,
        "clientMetadataUrl": login.client_metadata_url,
    }
    return {key: value for key, value in entry.items() if value}


def _with_braces(values: Mapping[str, str]) -> dict[str, str]:
    """Converts Gemini's `$NAME` to `${NAME}` in values that contain nothing else."""
    return {
        key: f"${{{value[1:]}}}" if re.fullmatch(r"\$[A-Z][A-Z0-9_]*", value) else value
        for key, value in values.items()
    }


def _read_path(entry: Mapping[str, Any], folder: Path, *keys: str) -> str | None:
    key, value = _first_value(entry, *keys)
    if value is None or value == "":
        return None
    text = _text(key, value)
    return text if text.startswith(("~", "${")) else str(folder / text)


def _read_switch(entry: Mapping[str, Any], key: str, default: bool) -> bool:
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise EntryProblem(key, f"must be true or false, not {kind_of_value(value)}")
    return value


def _read_tool_filter(entry: Mapping[str, Any]) -> dict[str, Any]:
    tools = entry.get("tools")
    if isinstance(tools, Mapping) and set(tools) <= {"allow", "deny"}:
        (allow_key, allowed), (deny_key, denied) = (
            _first_value(tools, "allow"),
            _first_value(tools, "deny"),
        )
    else:
        allow_key, allowed = _first_value(entry, "includeTools", "enabled_tools")
        if allowed is None and isinstance(tools, list):
            allow_key, allowed = "tools", tools
        deny_key, denied = _first_value(entry, "excludeTools", "disabled_tools", "disabledTools")
    return {
        "allow": None if allowed is None else _texts(allow_key, allowed),
        "deny": _texts(deny_key, denied),
    }


def _read_timeouts(entry: Mapping[str, Any], *, is_opencode: bool) -> dict[str, float]:
    timeout = entry.get("timeout")
    is_in_seconds = any(key in entry for key in _CLINE_KEYS) or (
        isinstance(timeout, int | float) and timeout < _MIN_MILLISECONDS
    )
    rows: list[tuple[str, Any, str, float]]
    if is_opencode and isinstance(timeout, Mapping):  # opencode 2
        rows = [
            ("timeout.startup", timeout.get("startup"), "start_timeout_s", 1e-3),
            ("timeout.execution", timeout.get("execution"), "timeout_s", 1e-3),
        ]
    elif is_opencode:  # for listing the tools
        rows = [("timeout", timeout, "start_timeout_s", 1e-3)]
    else:
        rows = [("timeout", timeout, "timeout_s", 1.0 if is_in_seconds else 1e-3)]
    rows += [(key, entry.get(key), field, scale) for key, field, scale in _TIMEOUT_KEYS]
    timeouts: dict[str, float] = {}
    for key, value, field, scale in rows:
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise EntryProblem(key, "must be a number above 0")
        timeouts[field] = min(value, 1e12) * scale
    return timeouts
