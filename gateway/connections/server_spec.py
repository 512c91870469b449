"""One server behind the gateway: how to start or reach it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from ...catalog.pattern import any_denies, any_grants
from ...catalog.text_cleaning import written_out
from ...settings import Glob

TransportName = Literal["stdio", "http", "sse", "openapi"]

CALL_TIMEOUT_S = 60.0
START_TIMEOUT_S = 30.0
_MAX_TIMEOUT_S = 86_400
_MAX_NAME_CHARS = 200
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SCOPE = re.compile(r"[!#-\[\]-~]+")  # RFC 6749, section 3.3
_DOT_SEGMENT = re.compile(r"/\.{1,2}(/|$)")


def _check_text(text: str) -> str:
    """The text, if operating systems accept it as an argument."""
    if "\0" in text:
        raise ValueError("contains a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "contains half of a surrogate pair, which is no valid text; remove it"
        ) from None
    return text


def _check_name(name: str) -> str:
    """The name, if a person sees all of it. Questions, lists and messages name the server."""
    if name != written_out(name) or not name.isprintable():
        raise ValueError("contains a control character or an invisible one; remove it")
    return name


Text = Annotated[str, AfterValidator(_check_text)]


class ToolFilter(BaseModel):
    """Which tools of a server the gateway uses.

    Args:
        allow: globs over tool names; None allows every tool.
        deny: globs over names of tools to leave out, even if `allow` matches them.

    Example:
        >>> ToolFilter(allow=("get_*",), deny=("get_secret",)).permits("get_issue")
        True
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    allow: tuple[Glob, ...] | None = None
    deny: tuple[Glob, ...] = ()

    def permits(self, tool: str) -> bool:
        """Whether a tool passes the filter. Only `deny` ignores letter case."""
        allowed = self.allow is None or any_grants(tool, self.allow)
        return allowed and not any_denies(tool, self.deny)


class LoginSettings(BaseModel):
    """How the gateway logs in to a server: its client at the authorization server.

    Args:
        client_id: id of an application that the user registered at the authorization server.
        client_secret: its secret, if it has one.
        scopes: scopes to ask for; empty for those that the server names.
        callback_port: port of this machine for the browser's return; None for any free one.
        redirect_uri: address for the browser's return, if it is not
            `http://localhost:PORT/callback`.
        client_metadata_url: address of the document of `shortlist auth metadata`.

    Raises:
        ValidationError: a field is wrong. The message never contains the value.

    Example:
        >>> LoginSettings(client_id="app-1", scopes=("repo",), callback_port=3118).client_id
        'app-1'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    client_id: Text | None = Field(default=None, min_length=1)
    client_secret: SecretStr | None = Field(default=None, min_length=1)
    scopes: tuple[Text, ...] = ()
    callback_port: int | None = Field(default=None, ge=1, le=65_535)
    redirect_uri: Text | None = None
    client_metadata_url: Text | None = None

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if not all("${" in scope or _SCOPE.fullmatch(scope) for scope in scopes):
            raise ValueError("a scope is one word without quotation marks; separate them by spaces")
        return scopes

    @field_validator("redirect_uri")
    @classmethod
    def _check_redirect(cls, address: str | None) -> str | None:
        if address is not None and "${" not in address:
            _check_address(address)
        return address

    @field_validator("client_metadata_url")
    @classmethod
    def _check_document_address(cls, address: str | None) -> str | None:
        if address is not None and "${" not in address:
            check_document_address(address)
        return address

    @model_validator(mode="after")
    def _check_secret(self) -> Self:
        if self.client_secret is not None and self.client_id is None:
            raise ValueError("client_secret: belongs to a client id; add it as `clientId`")
        return self


class ServerSpec(BaseModel):
    """One MCP server behind the gateway: how to start or reach it.

    Values of `env`, `headers` and `credentials` are `SecretStr`; `revealed_env()` and the like
    reveal them. `repr` and `str` never show them, `args`, the path of `url`, or `login`.

    Args:
        name: unique name in the configuration.
        transport: `stdio` starts a process; `http` (streamable HTTP) and `sse` reach a URL;
            `openapi` sends the requests of an OpenAPI document.
        command: program to start, for `stdio`.
        args: its arguments.
        env: environment variables for the process, added to the inherited ones.
        env_file: file of `NAME=value` lines added before `env`.
        cwd: working directory of the process.
        url: address, for `http`, `sse` and `openapi`.
        openapi: file with the OpenAPI document, for `openapi`.
        headers: HTTP headers sent with every request.
        credentials: name of a security scheme in the document to bearer token, API key or
            `NAME:PASSWORD`, for `openapi`.
        login: how the gateway logs in, for `http` and `sse`.
        timeout_s: time limit of a call in seconds.
        start_timeout_s: time limit in seconds to start the server and list its tools.
        disabled: whether the user switched the server off.
        description: text about the server for models; None if there is none.
        tools: which of its tools exist for the gateway.

    Raises:
        ValidationError: a field is missing or wrong. The message never contains the value.

    Example:
        >>> ServerSpec(name="time", transport="stdio", command="uvx", args=("mcp-server-time",))
        ServerSpec(name='time', transport='stdio', command='uvx', args=1)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[Text, AfterValidator(_check_name)] = Field(
        min_length=1, max_length=_MAX_NAME_CHARS
    )
    transport: TransportName
    command: Text | None = None
    args: tuple[Text, ...] = ()
    env: dict[Text, SecretStr] = Field(default_factory=dict)
    env_file: Text | None = None
    cwd: Text | None = None
    url: Text | None = None
    openapi: Text | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    credentials: dict[Text, SecretStr] = Field(default_factory=dict)
    login: LoginSettings = LoginSettings()
    timeout_s: float = Field(default=CALL_TIMEOUT_S, gt=0, le=_MAX_TIMEOUT_S, allow_inf_nan=False)
    start_timeout_s: float = Field(
        default=START_TIMEOUT_S, gt=0, le=_MAX_TIMEOUT_S, allow_inf_nan=False
    )
    disabled: bool = False
    description: Text | None = None
    tools: ToolFilter = ToolFilter()

    @field_validator("env")
    @classmethod
    def _check_variables(cls, env: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in env.items():
            if not name or "=" in name:
                raise ValueError("a variable's name must not be empty and must not contain '='")
            _check_value(name, value)
        return env

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError("a header's name must consist of letters, digits and '-'")
            _check_value(name, value)
            if re.search(r"[\r\n]", value.get_secret_value()):
                raise ValueError(f"{name}: a header's value must be one line")
        return headers

    @field_validator("credentials")
    @classmethod
    def _check_credentials(cls, credentials: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in credentials.items():
            _check_value(name, value)
            if not value.get_secret_value().isprintable() or not value:
                raise ValueError(f"{name}: a credential must be one line, and not empty")
        return credentials

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if self.credentials and self.transport != "openapi":
            raise ValueError(
                "credentials: belong to the schemes of an OpenAPI document; use `headers` or `env`"
            )
        if self.transport == "stdio":
            if not (self.command or "").strip():
                raise ValueError("command: a stdio server needs the program to start; add it")
        elif self.transport == "openapi" and not (self.openapi or "").strip():
            raise ValueError("openapi: the file with the OpenAPI document is missing; add it")
        elif self.url is None:
            raise ValueError(f"url: a server over {self.transport} needs an address; add it")
        elif "${" not in self.url:
            _check_address(self.url)
        return self

    def revealed_env(self) -> dict[str, str]:
        """Variables added to the environment of the process, in plain text."""
        return {name: value.get_secret_value() for name, value in self.env.items()}

    def revealed_headers(self) -> dict[str, str]:
        """HTTP headers in plain text."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}

    def revealed_credentials(self) -> dict[str, str]:
        """Credentials of an OpenAPI document's schemes in plain text."""
        return {name: value.get_secret_value() for name, value in self.credentials.items()}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        yield "name", self.name
        yield "transport", self.transport
        if self.command is not None:
            yield "command", self.command
            yield "args", len(self.args)
        if self.openapi is not None:
            yield "openapi", self.openapi
        if self.url is not None:
            yield "url", address_without_secrets(self.url)
        if self.env:
            yield "env", sorted(self.env)
        if self.headers:
            yield "headers", sorted(self.headers)
        if self.credentials:
            yield "credentials", sorted(self.credentials)
        if self.disabled:
            yield "disabled", True

    def __str__(self) -> str:
        return repr(self)


def address_without_secrets(url: str) -> str:
    """Scheme, host and port of a URL. The rest is left out, because it often contains tokens."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "***"
    return f"{parts.scheme}://{parts.hostname}{port}"


def check_document_address(url: str) -> None:
    """Check the address of a client id metadata document, which is also the client's id.

    Raises:
        ValueError: authorization servers would refuse the address.
    """
    parts = urlsplit(url)
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.path in ("", "/")
        or parts.fragment
        or "@" in parts.netloc
        or _DOT_SEGMENT.search(parts.path)
    ):
        raise ValueError(
            "must be the https address of a file, such as https://example.com/shortlist.json"
        )


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("url: not an address; write http://HOST:PORT/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url: an address must start with http:// or https:// and have a host")


def _check_value(name: str, value: SecretStr) -> None:
    try:
        _check_text(value.get_secret_value())
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
