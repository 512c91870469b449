"""Operation: the HTTP request behind a tool of an OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, unquote, urlsplit

from ..errors import MissingExtraError, OperationError, ToolError
from .arguments import ArgumentProblem, short_json
from .parameter_styles import (
    FORM_ENCODING,
    PARAMETER_PLACES,
    STYLES,
    Encoding,
    Place,
    cookie_pairs,
    default_encoding,
    header_text,
    path_text,
    query_pairs,
)
from .request_body import RequestBody
from .schema import checked_object, checked_text
from .security import (
    RequestCredentials,
    Security,
    SecurityScheme,
    all_schemes,
    needed_names,
    read_security,
    security_row,
    usable_schemes,
)

if TYPE_CHECKING:
    import httpx2

METHODS = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE")
"""The methods of operations, in the order of the OpenAPI specification."""
MAX_ADDRESS_CHARS = 32_000
"""Maximum length of a request's address. Servers refuse much shorter ones."""

_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(\s*;\s*[\w-]+=[\w.+-]+)*", re.ASCII)
#: Characters of a path besides letters, digits and `-._~` that stay as they are.
_PATH_CHARS = "/%:@!$&'()*+,;="
#: Headers that belong to the connection or to the client, or that OpenAPI describes elsewhere.
RESERVED_HEADERS = frozenset(
    "accept authorization connection content-length content-type cookie expect host keep-alive "
    "proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split()
)


class HttpRequest(NamedTuple):
    """An HTTP request as plain values, for any HTTP library.

    Args:
        method: such as `GET`.
        url: the address, percent-encoded.
        headers: the headers.
        content: the body.
    """

    method: str
    url: str
    headers: dict[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class RequestArgument:
    """Where an argument that is not in the body goes in the request.

    Args:
        argument: its name in the tool's schema.
        place: `path`, `query`, `header` or `cookie`.
        name: its name there.
        required: whether a call needs it.
        encoding: how its value is written.
    """

    argument: str
    place: Place
    name: str
    required: bool = False
    encoding: Encoding = FORM_ENCODING


@dataclass(frozen=True, slots=True)
class Operation:
    """The HTTP request behind a tool of an OpenAPI document.

    Args:
        method: HTTP method, in capital letters.
        path: path below the server's address, with `{name}` for path arguments.
        arguments: where each argument goes that is not in the body.
        body: the body of the request and its arguments; None if it has none.
        server: the server's address in the document; None if there is none.
        has_own_server: whether this operation has another server than the whole document.
        security: the credentials that the document asks for.

    Raises:
        ToolError: a part cannot be used in a request; names it.

    Example:
        >>> from shortlist import Catalog
        >>> place = {"name": "id", "in": "path", "schema": {"type": "integer"}}
        >>> paths = {"/pets/{id}": {"get": {"operationId": "get_pet", "parameters": [place]}}}
        >>> tool = Catalog.read({"openapi": "3.1.0", "paths": paths})[0]
        >>> tool.operation.build({"id": 7}, base_url="https://pets.example/v1").url
        'https://pets.example/v1/pets/7'
    """

    method: str
    path: str
    arguments: tuple[RequestArgument, ...] = ()
    body: RequestBody | None = None
    server: str | None = None
    has_own_server: bool = False
    security: Security = ()

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ToolError(field="operation.method", reason=f"must be one of {', '.join(METHODS)}")
        if not (self.path.startswith("/") and self.path.isprintable()):
            reason = "must start with '/' and have no control characters"
            raise ToolError(field="operation.path", reason=reason)
        for row in self.arguments:
            field_name = f"operation.arguments.{row.argument:.80}"
            if row.place == "header" and not may_set_header(row.name):
                raise ToolError(field=field_name, reason="is not the name of a header to set")
            if row.encoding.style not in (*STYLES[row.place], ""):
                reason = f"style: must be one of {', '.join(STYLES[row.place])}"
                raise ToolError(field=field_name, reason=reason)
        if self.body is not None:
            if not is_media_type(self.body.media_type):
                raise ToolError(field="operation.body.media_type", reason="is no media type")
            for name, encoding in self.body.fields.items():
                if encoding.style not in STYLES["body"]:
                    reason = f"must be one of {', '.join(STYLES['body'])}"
                    raise ToolError(field=f"operation.body.fields.{name:.80}.style", reason=reason)
        for scheme in all_schemes(self.security):
            if not can_be_sent(scheme):
                reason = "is not the name of a header, parameter or cookie to set"
                raise ToolError(field=f"operation.security.{scheme.name:.80}", reason=reason)

    def build(
        self,
        arguments: Mapping[str, Any] | None = None,
        *,
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> HttpRequest:
        """The request of a call, as plain values.

        The arguments are not checked against the tool's schema; `view.check` does that. An argument
        that is None counts as absent, except in a body.

        Args:
            arguments: arguments of the call, by name.
            base_url: the server's address, before the path; by default the document's. A query in
                it, such as an API key, is kept.
            credentials: name of a security scheme of the document to bearer token, API key, or
                `NAME:PASSWORD`. They go to a given `base_url` only. None if you add them yourself.

        Raises:
            OperationError: an argument cannot be written in its place, is unknown or missing, or
                there is no address; or a credential is missing.
        """
        values = dict(arguments or {})
        sent = None if credentials is None else self._credentials(credentials, base_url)
        prefix, base_query = self._base(base_url)
        path, _, fixed_query = self.path.partition("#")[0].partition("?")
        path_texts: dict[str, str] = {}
        pairs: list[tuple[str, str]] = []
        headers: dict[str, str] = {}
        cookies: list[tuple[str, str]] = []
        for row in self.arguments:
            value = values.pop(row.argument, None)
            if value is None:
                if row.required:
                    raise self._error(row.argument, "a value (required)", None)
                continue
            try:
                if row.place == "path":
                    path_texts[row.name] = _checked_path_text(row, value)
                elif row.place == "query":
                    pairs += query_pairs(row.name, value, row.encoding)
                elif row.place == "header":
                    headers[row.name] = header_text(value, row.encoding)
                else:
                    cookies += cookie_pairs(row.name, value, row.encoding)
            except ValueError as error:
                raise self._error(row.argument, _expected(error), value) from None
        content = self._content(values, headers)
        if values:
            name = next(iter(values))
            raise self._error(name, "no such argument", values[name])
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={text}" for name, text in cookies)
        queries = [base_query, _quoted_query(fixed_query), "&".join("=".join(p) for p in pairs)]
        query = "&".join(part for part in queries if part)
        url = prefix + self._filled(path, path_texts) + (f"?{query}" if query else "")
        if sent is not None:
            url, set_headers = sent.url(url), sent.all_headers(headers.get("Cookie", ""))
            replaced = {name.lower() for name in set_headers}
            headers = {name: text for name, text in headers.items() if name.lower() not in replaced}
            headers |= set_headers
        if len(url) > MAX_ADDRESS_CHARS:
            raise self._error("", f"an address of at most {MAX_ADDRESS_CHARS:,} characters", None)
        return HttpRequest(self.method, url, headers, content)

    def request(
        self,
        arguments: Mapping[str, Any] | None = None,
        *,
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
    ) -> httpx2.Request:
        """The request of a call, for a client of httpx2: `client.send(request)`.

        Needs the extra `openapi`. `build` gives the same request as plain values.

        Args:
            arguments: arguments of the call, by name.
            base_url: the server's address, before the path; by default the document's.
            credentials: as for `build`.

        Raises:
            OperationError: as `build`.
            MissingExtraError: httpx2 is not installed.
        """
        try:
            import httpx2
        except ImportError as missing:
            raise MissingExtraError("requests of OpenAPI operations", "openapi") from missing
        built = self.build(arguments, base_url=base_url, credentials=credentials)
        # A body of no bytes is no body.
        content = built.content or None
        return httpx2.Request(built.method, built.url, headers=built.headers, content=content)

    def problems(self, arguments: Mapping[str, Any]) -> tuple[ArgumentProblem, ...]:
        """Why arguments that fit the schema cannot be sent; empty if they can.

        Args:
            arguments: arguments of the call, by name.
        """
        try:
            self.build(arguments, base_url="http://localhost")
        except OperationError as error:
            return (ArgumentProblem(error.argument, error.expected, error.actual),)
        return ()

    def without(self, arguments: frozenset[str]) -> Operation:
        """A copy without some arguments, which a call can then no longer give.

        Args:
            arguments: names of arguments outside the body.
        """
        rows = tuple(row for row in self.arguments if row.argument not in arguments)
        return replace(self, arguments=rows)

    def _credentials(
        self, credentials: Mapping[str, str], base_url: str | None
    ) -> RequestCredentials:
        """The credentials to send."""
        schemes = usable_schemes(self.security, credentials)
        if schemes is None:
            names = needed_names(self.security) or "a scheme that no text can be given for"
            raise self._error("", f"credentials for {names}", None)
        if schemes and base_url is None:
            # A document must not choose who gets a credential.
            raise self._error("", "base_url, the only address that credentials go to", None)
        for scheme in schemes:
            if not credentials[scheme.name].isprintable():
                raise self._error("", f"one line of text as credential {scheme.name!r:.80}", None)
        return RequestCredentials.of(schemes, credentials)

    def _base(self, base_url: str | None) -> tuple[str, str]:
        """The address before the path, and its query."""
        url = base_url if base_url is not None else self.server
        if url is None:
            raise self._error("", "base_url, because the document names no server", None)
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            parts = urlsplit("")
        plain = not re.search(r"[\x00-\x20\x7f\\]", url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
            # A query, or what stands before the host, may be a secret.
            without_secrets = url.partition("?")[0].rpartition("@")[2]
            raise self._error("", "base_url, as http://HOST:PORT/PATH", without_secrets)
        if base_url is None and "@" in parts.netloc:
            # It would replace the credentials of whoever sends the request.
            raise self._error(
                "", "base_url, because the document's server has user information", None
            )
        path = quote(parts.path.rstrip("/"), safe=_PATH_CHARS)
        return f"{parts.scheme}://{parts.netloc}{path}", _quoted_query(parts.query)

    def _filled(self, template: str, texts: Mapping[str, str]) -> str:
        """The path with its arguments.

        Each argument stays inside its segment of the path.
        """
        parts = _TEMPLATE.split(template)
        for index, part in enumerate(parts):
            if index % 2 == 0:
                parts[index] = quote(part, safe=_PATH_CHARS)
            elif part in texts:
                parts[index] = texts[part]
            else:
                raise self._error(part, "a value (required)", None)
        path = "".join(parts)
        for segment in path.split("/"):
            if unquote(segment) in (".", ".."):
                raise self._error("", "a path without the segments '.' and '..'", None)
        return path

    def _content(self, values: dict[str, Any], headers: dict[str, str]) -> bytes:
        """The bytes of the body.

        Adds its `Content-Type`, and takes its arguments out of `values`.
        """
        body = self.body
        if body is None:
            return b""
        names = body.properties if body.argument is None else (body.argument,)
        given = {name: values.pop(name) for name in names if name in values}
        if not given and not body.required:
            return b""
        if body.argument is not None and not given:
            raise self._error(body.argument, "a value (required)", None)
        value = given if body.argument is None else given[body.argument]
        try:
            content, headers["Content-Type"] = body.content(value)
        except ValueError as error:
            raise self._error(body.argument or "", _expected(error), value) from None
        return content

    def _error(self, argument: str, expected: str, value: Any) -> OperationError:
        actual = "nothing" if value is None else short_json(value)
        pointer = f"/{argument.replace('~', '~0').replace('/', '~1'):.80}" if argument else ""
        operation = f"{self.method} {self.path:.200}"
        return OperationError(operation, argument=pointer, expected=expected, actual=actual)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without defaults."""
        row: dict[str, Any] = {"method": self.method, "path": self.path}
        if self.arguments:
            row["arguments"] = {item.argument: _argument_row(item) for item in self.arguments}
        if self.body is not None:
            row["body"] = _body_row(self.body)
        if self.server is not None:
            row["server"] = self.server
        if self.has_own_server:
            row["has_own_server"] = True
        if self.security:
            row["security"] = security_row(self.security)
        return row

    @classmethod
    def from_dict(cls, row: object) -> Operation:
        """An operation from the result of `to_dict`.

        Raises:
            ToolError: it is not such a form; names the field.
        """
        values = checked_object(row, "operation")
        arguments = checked_object(values.get("arguments", {}), "operation.arguments")
        server = values.get("server")
        return cls(
            checked_text(values.get("method"), "operation.method"),
            checked_text(values.get("path"), "operation.path"),
            tuple(_argument(name, item) for name, item in arguments.items()),
            None if values.get("body") is None else _body(values["body"]),
            None if server is None else checked_text(server, "operation.server"),
            values.get("has_own_server") is True,
            read_security(values.get("security", [])),
        )


def may_set_header(name: str) -> bool:
    """Whether an argument may set a header of this name."""
    return _TOKEN.fullmatch(name) is not None and name.lower() not in RESERVED_HEADERS


def can_be_sent(scheme: SecurityScheme) -> bool:
    """Whether a scheme's header, query parameter or cookie has a valid name."""
    name = scheme.parameter
    if scheme.kind == "header":
        return name.lower() == "authorization" or may_set_header(name)
    if scheme.kind == "cookie":
        return _TOKEN.fullmatch(name) is not None
    return scheme.kind != "query" or bool(name)


def is_media_type(text: str) -> bool:
    """Whether a text can be the `Content-Type` of a body."""
    return len(text) <= 200 and _MEDIA_TYPE.fullmatch(text) is not None


def template_names(path: str) -> list[str]:
    """The names in braces of a path."""
    return list(dict.fromkeys(_TEMPLATE.findall(path.partition("#")[0].partition("?")[0])))


def _checked_path_text(row: RequestArgument, value: Any) -> str:
    text = path_text(row.name, value, row.encoding)
    if not text:
        raise ValueError("a value that is not empty, because it is part of the path")
    # Some servers decode an encoded slash, and would then leave the segment.
    if not {".", ".."}.isdisjoint(re.split(r"[/\\]", unquote(text))):
        raise ValueError("a value without the path segments '.' and '..'")
    return text


def _expected(error: ValueError) -> str:
    """What was expected, of an error of the functions that write values."""
    return "valid Unicode text" if isinstance(error, UnicodeError) else str(error)


def _quoted_query(query: str) -> str:
    return quote(query, safe="%&=+:/?@!$'()*,;[]")


def _changes(value: Any, default: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from those of another."""
    names = (field.name for field in fields(value))
    return {n: getattr(value, n) for n in names if getattr(value, n) != getattr(default, n)}


def _argument_row(item: RequestArgument) -> dict[str, Any]:
    row: dict[str, Any] = {"in": item.place}
    if item.name != item.argument:
        row["name"] = item.name
    if item.required:
        row["required"] = True
    return row | _changes(item.encoding, default_encoding(item.place))


def _body_row(body: RequestBody) -> dict[str, Any]:
    row = {"media_type": body.media_type, **_changes(body, RequestBody(body.media_type))}
    if body.properties:
        row["properties"] = list(body.properties)
    if body.fields:
        default = default_encoding("body")
        row["fields"] = {name: _changes(one, default) for name, one in body.fields.items()}
    return row


def _encoding(row: Mapping[str, Any], place: Place) -> Encoding:
    default = default_encoding(place)
    return Encoding(
        # Operation checks it.
        cast("Any", row.get("style", default.style)),
        row.get("explode", default.explode) is True,
        row.get("allow_reserved") is True,
        row.get("is_base64") is True,
    )


def _argument(name: str, value: object) -> RequestArgument:
    field_name = f"operation.arguments.{name:.80}"
    row = checked_object(value, field_name)
    place = row.get("in")
    if not isinstance(place, str) or place not in PARAMETER_PLACES:
        raise ToolError(
            field=f"{field_name}.in", reason=f"must be one of {', '.join(PARAMETER_PLACES)}"
        )
    return RequestArgument(
        name,
        cast("Place", place),
        checked_text(row.get("name", name), f"{field_name}.name"),
        row.get("required") is True,
        _encoding(row, cast("Place", place)),
    )


def _body(value: object) -> RequestBody:
    place = "operation.body"
    row = checked_object(value, place)
    forms = checked_object(row.get("fields", {}), f"{place}.fields")
    argument, properties = row.get("argument"), row.get("properties", [])
    if not isinstance(properties, list):
        got = type(properties).__name__
        raise ToolError(field=f"{place}.properties", reason=f"must be a list, got {got}")
    return RequestBody(
        checked_text(row.get("media_type"), f"{place}.media_type"),
        row.get("required") is True,
        None if argument is None else checked_text(argument, f"{place}.argument"),
        tuple(
            checked_text(name, f"{place}.properties[{index}]")
            for index, name in enumerate(properties)
        ),
        row.get("is_base64") is True,
        {
            name: _encoding(checked_object(form, f"{place}.fields.{name:.80}"), "body")
            for name, form in forms.items()
        },
    )
