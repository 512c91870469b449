"""The arguments and the HTTP request of one operation of an OpenAPI document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from ...errors import ToolError
from ..operation import (
    Operation,
    RequestArgument,
    can_be_sent,
    is_media_type,
    may_set_header,
    template_names,
)
from ..parameter_styles import PARAMETER_PLACES, STYLES, Encoding, Place, default_encoding
from ..request_body import FORM_TYPE, MULTIPART_TYPE, RequestBody, bare_media_type, is_json
from ..security import SchemeKind, Security, SecurityScheme
from .openapi_schema import (
    SchemaCopier,
    binary_as_base64,
    convert_request_schema,
    is_binary,
    plain_properties,
)
from .reader import short_value

_BODY_ARGUMENT = "body"
#: Most media types of a body, and variables of a server, that are looked at.
_MAX_ENTRIES = 100
_MAX_ADDRESS_CHARS = 2_000
_ENCODING_KEYS = ("style", "explode", "allowReserved")
_BASE64_SCHEMA = {"type": "string", "contentEncoding": "base64"}


class Endpoint(NamedTuple):
    """Where an operation is in its document.

    Args:
        method: HTTP method, as the document writes it.
        path: its path.
        parameters: the parameters of all operations of the path.
        servers: lists of servers, the nearest one first: of the operation, path and document.
        is_version_30: whether schemas are written as in OpenAPI 3.0.
        security: what operations need that do not say it themselves.
    """

    method: str
    path: str
    parameters: Any
    servers: tuple[Any, Any, Any]
    is_version_30: bool
    security: Any = None


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter of an operation.

    Args:
        place: where its value goes: path, query, header or cookie.
        name: its name in the document.
        required: whether a call needs it.
        encoding: how its value is written there.
        schema: JSON Schema of its value.
    """

    place: Place
    name: str
    required: bool
    encoding: Encoding
    schema: dict[str, Any]


def read_request(
    definition: Mapping[str, Any], endpoint: Endpoint, schemas: SchemaCopier
) -> tuple[dict[str, Any], Operation]:
    """JSON Schema of an operation's arguments, and its request.

    A parameter whose name occurs in two places gets arguments such as `id_in_path` and
    `id_in_query`. The properties of a body are arguments of their own, unless the body is more than
    an object with properties, or a name would occur twice: then the argument `body` is the body.

    Raises:
        ToolError: a part is malformed; names the field.
    """
    parameters = _parameters(definition, endpoint, schemas)
    names = _argument_names(parameters)
    properties = {name: row.schema for name, row in zip(names, parameters, strict=True)}
    required = [name for name, row in zip(names, parameters, strict=True) if row.required]
    arguments = [
        RequestArgument(name, row.place, row.name, row.required, row.encoding)
        for name, row in zip(names, parameters, strict=True)
    ]
    body: RequestBody | None = None
    if definition.get("requestBody") is not None:
        taken = frozenset([*names, *(row.name for row in parameters)])
        body, body_properties, body_required = _body(definition, endpoint, schemas, taken)
        properties |= body_properties
        required += body_required
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    # An argument that is not declared has no place in the request.
    schema["additionalProperties"] = False
    server, has_own_server = _server(endpoint)
    operation = Operation(
        endpoint.method.upper(),
        endpoint.path,
        tuple(arguments),
        body,
        server,
        has_own_server,
        _security(definition.get("security", endpoint.security), schemas),
    )
    return schema, operation


#: HTTP methods that change nothing (RFC 9110).
READING_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))


def annotations_of(method: str) -> dict[str, Any]:
    """Hints of MCP that an HTTP method promises (RFC 9110).

    Other methods promise nothing more than that they may write.
    """
    if method.upper() in READING_METHODS:
        return {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    if method.upper() == "DELETE":
        return {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}
    if method.upper() == "PUT":
        return {"readOnlyHint": False, "idempotentHint": True}
    return {"readOnlyHint": False}


def _parameters(
    definition: Mapping[str, Any], endpoint: Endpoint, schemas: SchemaCopier
) -> list[_Parameter]:
    """The parameters of an operation. Its own replace those of its path."""
    own = definition.get("parameters")
    listed = (("path.parameters", endpoint.parameters), ("parameters", own))
    in_path = template_names(endpoint.path)
    parameters: dict[tuple[str, str], _Parameter] = {}
    for field, rows in listed:
        for index, row in enumerate(_list(rows, field)):
            parameter = _parameter(row, f"{field}[{index}]", schemas, endpoint.is_version_30)
            if parameter.place == "header" and not may_set_header(parameter.name):
                continue  # OpenAPI says to ignore Accept, Content-Type and Authorization
            if parameter.place == "path" and parameter.name not in in_path:
                continue
            name = parameter.name.lower() if parameter.place == "header" else parameter.name
            parameters[parameter.place, name] = parameter
    for name in in_path:
        if ("path", name) not in parameters:
            schema = {"type": "string"}
            parameters["path", name] = _Parameter(
                "path", name, True, default_encoding("path"), schema
            )
    return list(parameters.values())


def _parameter(value: Any, field: str, schemas: SchemaCopier, is_version_30: bool) -> _Parameter:
    row = schemas.resolved_object(value, field)
    name, place = row.get("name"), row.get("in")
    if not isinstance(name, str):
        raise ToolError(field=f"{field}.name", reason="must be text")
    if not isinstance(place, str) or place not in PARAMETER_PLACES:
        reason = f"must be one of {', '.join(PARAMETER_PLACES)}, got {short_value(place)}"
        raise ToolError(field=f"{field}.in", reason=reason)
    declared = row.get("schema")
    encoding = _encoding(row, cast("Place", place), f"{field}.style")
    if declared is None and isinstance(content := row.get("content"), dict) and content:
        media_type = _preferred(content)
        declared = _media_schema(content, media_type)
        if is_json(media_type):
            encoding = replace(encoding, style="", explode=False)
    schema = schemas.schema(declared if declared is not None else {}, f"{field}.schema")
    schema = convert_request_schema(schema, is_version_30=is_version_30)
    if description := stripped_text(row.get("description")):
        schema["description"] = description
    if row.get("deprecated") is True:
        schema["deprecated"] = True
    required = place == "path" or row.get("required") is True
    return _Parameter(cast("Place", place), name, required, encoding, schema)


def _encoding(row: Mapping[str, Any], place: Place, field: str) -> Encoding:
    style = row.get("style")
    if style is None:
        style = STYLES[place][0]
    if style not in STYLES[place]:
        reason = f"must be one of {', '.join(STYLES[place])}, got {short_value(style)}"
        raise ToolError(field=field, reason=reason)
    explode = row.get("explode")
    if not isinstance(explode, bool):
        explode = style in ("form", "deepObject")
    return Encoding(style, explode, allow_reserved=row.get("allowReserved") is True)


def _argument_names(parameters: list[_Parameter]) -> list[str]:
    """A name for each parameter: its own, or with its place where two have the same name."""
    own_names = Counter(row.name for row in parameters)
    names: dict[str, None] = {}
    for row in parameters:
        name = row.name
        if own_names[name] > 1:
            name = f"{name}_in_{row.place}"
            while name in own_names or name in names:
                name += "_"
        names[name] = None
    return list(names)


def _body(
    definition: Mapping[str, Any], endpoint: Endpoint, schemas: SchemaCopier, taken: frozenset[str]
) -> tuple[RequestBody, dict[str, Any], list[str]]:
    """The body, the properties of its arguments, and the names of those that a call needs."""
    declared = schemas.resolved_object(definition["requestBody"], "requestBody")
    content = declared.get("content")
    is_required = declared.get("required") is True
    media_type = _preferred(content) if isinstance(content, dict) else ""
    media = content.get(media_type) if isinstance(content, dict) else None
    schema = _media_schema(content, media_type)
    schema = schemas.schema(schema if schema is not None else {}, "requestBody.schema")
    schema = convert_request_schema(schema, is_version_30=endpoint.is_version_30)
    media_type = _sent_type(media_type, schema)
    kind = bare_media_type(media_type)
    body = RequestBody(media_type, is_required)
    if kind in (FORM_TYPE, MULTIPART_TYPE):
        encodings = media.get("encoding") if isinstance(media, dict) else None
        body = replace(body, fields=dict(_form_fields(encodings, schema, kind)))
        schema = binary_as_base64(schema) if kind == MULTIPART_TYPE else schema
    elif not is_json(media_type):
        body = replace(body, is_base64=_is_bytes(kind, schema))
        schema = dict(_BASE64_SCHEMA) if body.is_base64 else {"type": "string"}
    plain = plain_properties(schema)
    if plain is not None:
        properties, required = plain
        # A body that may be left out can have required properties. As arguments of their own they
        # would always be required, so that the argument is then the whole body.
        if not properties.keys() & taken and (is_required or not required):
            return replace(body, properties=tuple(properties)), properties, required
    if description := stripped_text(declared.get("description")):
        schema["description"] = description
    argument = _BODY_ARGUMENT
    while argument in taken:
        argument += "_"
    return replace(body, argument=argument), {argument: schema}, [argument] * is_required


def _preferred(content: Mapping[Any, Any]) -> str:
    """The media type that is sent: JSON, else a form, else text, else the first one."""
    kinds = [kind for kind in islice(content, _MAX_ENTRIES) if isinstance(kind, str)]

    def rank(kind: str) -> int:
        if is_json(kind):
            return 0
        ranks = {FORM_TYPE: 1, MULTIPART_TYPE: 2, "text/plain": 3}
        return ranks.get(bare_media_type(kind), 4)

    return min(kinds, key=rank, default="")


def _sent_type(media_type: str, schema: Mapping[str, Any]) -> str:
    """The `Content-Type` for a media type of the document, which may be a pattern.

    Raises:
        ToolError: it cannot be sent.
    """
    if "*" in media_type or not media_type:
        is_text = media_type.startswith("text/")
        is_file = schema.get("format") == "binary" or not schema
        other = "application/octet-stream" if media_type and is_file else "application/json"
        return "text/plain" if is_text else other
    if not is_media_type(media_type):
        field = f"requestBody.content.{media_type:.80}"
        raise ToolError(field=field, reason="is no media type")
    return media_type


def _is_bytes(kind: str, schema: Mapping[str, Any]) -> bool:
    """Whether a body that is no JSON and no form is sent as bytes, not as text."""
    if kind.startswith("text/") or kind.endswith(("+xml", "/xml", "yaml", "/javascript", "/sdp")):
        return False
    return is_binary(schema) or schema.get("type") != "string"


def _form_fields(
    encodings: Any, schema: Mapping[str, Any], kind: str
) -> Iterator[tuple[str, Encoding]]:
    """How the properties of a form are written, where it is not the default."""
    properties = schema.get("properties")
    for name, child in properties.items() if isinstance(properties, dict) else ():
        row = encodings.get(name) if isinstance(encodings, dict) else None
        items = child.get("items") if isinstance(child, dict) else None
        if kind == MULTIPART_TYPE:
            if is_binary(child) or is_binary(items):
                yield name, replace(default_encoding("body"), is_base64=True)
        elif isinstance(row, dict) and any(key in row for key in _ENCODING_KEYS):
            yield name, _encoding(row, "body", f"requestBody.encoding.{name:.80}.style")


def _server(endpoint: Endpoint) -> tuple[str | None, bool]:
    """The address of the nearest server, and whether the operation or its path declares it."""
    for index, servers in enumerate(endpoint.servers):
        first = servers[0] if isinstance(servers, list) and servers else None
        url = first.get("url") if isinstance(first, dict) else None
        if not isinstance(url, str) or not url:
            continue
        if len(url) > _MAX_ADDRESS_CHARS:
            continue
        variables = first.get("variables") if isinstance(first, dict) else None
        rows = variables.items() if isinstance(variables, dict) else ()
        for name, row in islice(rows, _MAX_ENTRIES):
            default = row.get("default") if isinstance(row, dict) else None
            text = default if isinstance(default, str) else ""
            url = url.replace(f"{{{name}}}", text[:_MAX_ADDRESS_CHARS])[:_MAX_ADDRESS_CHARS]
        return url, index < 2
    return None, False


def _security(declared: Any, schemas: SchemaCopier) -> Security:
    """The alternatives of credentials that an operation needs."""
    alternatives = []
    for index, row in enumerate(_list(declared, "security")[:_MAX_ENTRIES]):
        if not isinstance(row, dict) or not all(isinstance(name, str) for name in row):
            raise ToolError(field=f"security[{index}]", reason="must be an object")
        names = islice(row, _MAX_ENTRIES)
        alternatives.append(tuple(_security_scheme(name, schemas) for name in names))
    return tuple(alternatives)


def _security_scheme(name: str, schemas: SchemaCopier) -> SecurityScheme:
    """A scheme of the document; unsupported if it is missing or malformed."""
    path = name.replace("~", "~0").replace("/", "~1")
    try:
        row = schemas.resolved_object(
            {"$ref": f"#/components/securitySchemes/{quote(path)}"}, "security"
        )
    except ToolError:
        return SecurityScheme(name, "unsupported")
    kind, place, parameter = row.get("type"), row.get("in"), row.get("name")
    # A login gives a bearer token.
    if kind in ("oauth2", "openIdConnect"):
        return SecurityScheme(name, "bearer")
    scheme = str(row.get("scheme")).lower()
    if kind == "http" and scheme in ("bearer", "basic"):
        return SecurityScheme(name, cast("SchemeKind", scheme))
    if kind == "apiKey" and isinstance(parameter, str) and place in ("query", "cookie", "header"):
        key = SecurityScheme(name, cast("SchemeKind", place), parameter)
        if can_be_sent(key):
            return key
    return SecurityScheme(name, "unsupported")


def _media_schema(content: Any, media_type: str) -> Any:
    chosen = content.get(media_type) if isinstance(content, dict) else None
    return chosen.get("schema") if isinstance(chosen, dict) else None


def stripped_text(value: object) -> str:
    """A text of the document without blanks around it; "" for any other value."""
    return value.strip() if isinstance(value, str) else ""


def _list(value: Any, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ToolError(field=field, reason=f"must be a list, got {type(value).__name__}")
    return value
