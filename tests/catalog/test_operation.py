"""The HTTP requests of OpenAPI tools: styles, bodies, what is refused, and how they are kept."""

from __future__ import annotations

import builtins
import json
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartParser

from shortlist import Catalog, Engine, Gate, Rule, Tool
from shortlist.catalog import read_tools
from shortlist.catalog.operation import Operation
from shortlist.errors import MissingExtraError, OperationError, ToolError
from shortlist.gating import requires_scope

BASE = "https://api.example/v1"


def tool_of(
    parameters: list[dict[str, Any]] | None = None,
    body: dict[str, Any] | None = None,
    *,
    path: str = "/a",
    method: str = "post",
    version: str = "3.1.0",
    **operation: Any,
) -> Tool:
    """The tool of one operation; parameters without a schema are text."""
    rows = [{"schema": {"type": "string"}, **row} for row in parameters or ()]
    definition = {"operationId": "call", "parameters": rows, **operation}
    if body is not None:
        definition["requestBody"] = body
    (tool,) = read_tools({"openapi": version, "paths": {path: {method: definition}}}).tools
    return tool


def json_body(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}, **more}


LIST, TABLE = ["a b", "c,d", 3], {"R": 100, "G": "x&y"}


@pytest.mark.parametrize(
    ("place", "style", "explode", "value", "expected"),
    [
        # The examples of the OpenAPI specification and RFC 6570, with characters to encode.
        ("path", "simple", False, "a/b c", "a%2Fb%20c"),
        ("path", "simple", False, True, "true"),
        ("path", "simple", False, LIST, "a%20b,c%2Cd,3"),
        ("path", "simple", False, TABLE, "R,100,G,x%26y"),
        ("path", "simple", True, TABLE, "R=100,G=x%26y"),
        ("path", "label", False, "blue", ".blue"),
        ("path", "label", False, LIST, ".a%20b,c%2Cd,3"),
        ("path", "label", True, LIST, ".a%20b.c%2Cd.3"),
        ("path", "label", True, TABLE, ".R=100.G=x%26y"),
        ("path", "matrix", False, 5, ";p=5"),
        ("path", "matrix", False, LIST, ";p=a%20b,c%2Cd,3"),
        ("path", "matrix", True, LIST, ";p=a%20b;p=c%2Cd;p=3"),
        ("path", "matrix", True, TABLE, ";R=100;G=x%26y"),
        ("query", "form", True, "ä&b=c#d", "p=%C3%A4%26b%3Dc%23d"),
        ("query", "form", True, LIST, "p=a%20b&p=c%2Cd&p=3"),
        ("query", "form", False, LIST, "p=a%20b,c%2Cd,3"),
        ("query", "form", True, TABLE, "R=100&G=x%26y"),
        ("query", "form", False, TABLE, "p=R,100,G,x%26y"),
        ("query", "form", True, [], ""),
        ("query", "spaceDelimited", False, LIST, "p=a%20b%20c%2Cd%203"),
        ("query", "pipeDelimited", False, LIST, "p=a%20b%7Cc%2Cd%7C3"),
        (
            "query",
            "deepObject",
            True,
            {"a": {"b": 1}, "c": [2]},
            "p%5Ba%5D%5Bb%5D=1&p%5Bc%5D%5B0%5D=2",
        ),
        ("header", "simple", False, LIST, "a b,c,d,3"),
        ("header", "simple", True, TABLE, "R=100,G=x&y"),
        ("cookie", "form", True, "a;b=c", "p=a%3Bb=c"),
        ("cookie", "form", False, ["a", "b"], "p=a%2Cb"),
    ],
)
def test_values_are_written_in_their_style(place, style, explode, value, expected):
    row = {"name": "p", "in": place, "style": style, "explode": explode, "schema": {}}
    tool = tool_of([row], path="/x/{p}" if place == "path" else "/x", method="get")
    request = tool.operation.build({"p": value}, base_url=BASE)
    written = {
        "path": request.url.removeprefix(f"{BASE}/x").removeprefix("/"),
        "query": request.url.removeprefix(f"{BASE}/x").removeprefix("?"),
        "header": request.headers.get("p"),
        "cookie": request.headers.get("Cookie"),
    }
    assert written[place] == expected


def test_arguments_of_one_name_in_two_places_stay_apart():
    rows = [
        {"name": "id", "in": "path", "required": True},
        {"name": "id", "in": "query", "schema": {"type": "integer"}},
        {"name": "id_in_path", "in": "query"},
    ]
    tool = tool_of(rows, path="/pets/{id}", method="get")
    assert tool.input_schema["properties"] == {
        "id_in_path": {"type": "string"},
        "id_in_path_": {"type": "string"},
        "id_in_query": {"type": "integer"},
    }
    assert tool.input_schema["required"] == ["id_in_path_"]
    given = {"id_in_path_": "rex", "id_in_query": 7, "id_in_path": "x"}
    request = tool.operation.build(given, base_url=BASE)
    assert request.url == f"{BASE}/pets/rex?id_in_path=x&id=7"


def test_read_only_properties_are_neither_required_nor_offered():
    pet = {
        "type": "object",
        "required": ["id", "name", "owner"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string"},
            "owner": {
                "type": "object",
                "required": ["since"],
                "properties": {"since": {"type": "string", "readOnly": True}, "who": {}},
            },
            "readOnly": {"type": "boolean"},
        },
    }
    schema = tool_of(body=json_body(pet)).input_schema
    assert set(schema["properties"]) == {"name", "owner", "readOnly"}
    assert schema["required"] == ["name", "owner"]
    assert schema["properties"]["owner"] == {"type": "object", "properties": {"who": {}}}
    joined = {"allOf": [pet, {"required": ["id"]}, {"properties": {"tag": {"type": "string"}}}]}
    schema = tool_of(body=json_body(joined)).input_schema
    assert set(schema["properties"]) == {"name", "owner", "readOnly", "tag"}
    assert schema["required"] == ["name", "owner"]


def test_schemas_of_version_30_become_json_schema():
    properties = {
        "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        "least": {"type": "integer", "maximum": 9, "exclusiveMaximum": False},
        "kind": {"type": "string", "enum": ["a"], "nullable": True},
        "any": {"nullable": True, "allOf": [{"type": "object"}], "description": "Any"},
    }
    tool = tool_of(body=json_body({"properties": properties}), version="3.0.3")
    assert tool.input_schema["properties"] == {
        "any": {"anyOf": [{"allOf": [{"type": "object"}]}, {"type": "null"}], "description": "Any"},
        "kind": {"type": ["string", "null"], "enum": ["a", None]},
        "least": {"type": "integer", "maximum": 9},
        "size": {"type": "integer", "exclusiveMinimum": 0},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"oneOf": [{"properties": {"a": {}}}], "properties": {"b": {}}},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"a": {"type": "string"}}}]},
    ],
)
def test_a_body_that_is_more_than_an_object_with_properties_is_one_argument(schema):
    tool = tool_of(body=json_body(schema))
    assert tool.input_schema["properties"] == {"body": schema}
    assert tool.input_schema["required"] == ["body"]
    request = tool.operation.build({"body": {"a": 1}}, base_url=BASE)
    assert json.loads(request.content) == {"a": 1}
    with pytest.raises(OperationError, match=r"POST /a: /body: expected a value \(required\)"):
        tool.operation.build({}, base_url=BASE)


def test_an_optional_body_keeps_its_required_properties():
    schema = {"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}
    tool = tool_of(body=json_body(schema, required=False))
    assert tool.input_schema["properties"] == {"body": schema}
    assert "required" not in tool.input_schema
    assert tool.operation.build({}, base_url=BASE).content == b""


def test_a_form_is_written_as_forms_are():
    schema = {"type": "object", "properties": {name: {} for name in ("a", "b", "c", "d")}}
    media = {"schema": schema, "encoding": {"d": {"style": "deepObject", "explode": True}}}
    body = {"required": True, "content": {"application/x-www-form-urlencoded": media}}
    given = {"a": "x y&z", "b": ["1", "2"], "c": {"k": 1}, "d": {"k": {"l": "a b"}}}
    request = tool_of(body=body).operation.build(given, base_url=BASE)
    assert request.headers == {"Content-Type": "application/x-www-form-urlencoded"}
    assert request.content == (b"a=x+y%26z&b=1&b=2&c=%7B%22k%22%3A1%7D&d%5Bk%5D%5Bl%5D=a+b")


@pytest.mark.anyio
async def test_a_multipart_form_is_read_by_a_real_parser():
    properties = {
        "file": {"type": "string", "format": "binary", "description": "A picture"},
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
        'na"me\r\nX: y': {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
    }
    body = {"content": {"multipart/form-data": {"schema": {"properties": properties}}}}
    tool = tool_of(body=body)
    assert tool.input_schema["properties"]["file"] == {
        "type": "string",
        "contentEncoding": "base64",
        "description": "A picture",
    }
    given = {
        "file": "AP8NCi0t",
        "files": ["YQ==", "Yg=="],
        'na"me\r\nX: y': "a\r\nb",
        "tags": ["x", "y"],
        "more": {"k": [1]},
    }
    name = next(key for key in tool.operation.body.properties if key.startswith("na"))
    given[name] = given.pop('na"me\r\nX: y')
    request = tool.operation.build(given, base_url=BASE)

    async def stream():
        yield request.content

    form = await MultiPartParser(Headers(request.headers), stream()).parse()
    assert await form["file"].read() == b"\x00\xff\r\n--"
    assert [await part.read() for part in form.getlist("files")] == [b"a", b"b"]
    assert form.getlist("tags") == ["x", "y"]
    assert json.loads(form["more"]) == {"k": [1]}
    assert [value for key, value in form.items() if key.startswith("na")] == ["a\r\nb"]
    await form.close()
    with pytest.raises(OperationError, match="expected the content as base64"):
        tool.operation.build({"file": "no base64!"}, base_url=BASE)


def test_other_bodies_are_text_or_base64():
    for media_type, given, sent in (
        ("text/plain", "größe", "größe".encode()),
        ("application/xml", "<a/>", b"<a/>"),
        ("application/octet-stream", "AP8=", b"\x00\xff"),
        ("image/*", "AP8=", b"\x00\xff"),
        ("*/*", "AP8=", b"\x00\xff"),
    ):
        tool = tool_of(body={"required": True, "content": {media_type: {}}})
        assert tool.operation.build({"body": given}, base_url=BASE).content == sent


def test_headers_that_are_not_an_operations_own_are_no_arguments():
    names = ("Accept", "content-type", "Authorization", "Host", "Content-Length", "X-Own")
    tool = tool_of([{"name": name, "in": "header"} for name in names])
    assert set(tool.input_schema["properties"]) == {"X-Own"}
    with pytest.raises(ToolError, match="is not the name of a header to set"):
        Operation.from_dict(
            {"method": "GET", "path": "/a", "arguments": {"Host": {"in": "header"}}}
        )


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({"id": ".."}, "/id"),
        ({"id": "a/../b"}, "/id"),
        ({"id": ""}, "/id"),
        ({}, "/id"),
        ({"id": "a", "X-Own": "1\r\nX-More: 2"}, "/X-Own"),
        ({"id": "a", "X-Own": "1\n"}, "/X-Own"),
        ({"id": "a", "X-Own": "\x00"}, "/X-Own"),
        ({"id": "a", "X-Own": "größe"}, "/X-Own"),
        ({"id": "a", "q": "\ud800"}, "/q"),
        ({"id": "a", "bogus": 1}, "/bogus"),
        ({"id": "a", "q": "x" * 40_000}, ""),
    ],
)
def test_what_a_request_cannot_carry_is_refused_and_invalid(arguments, place):
    rows = [
        {"name": "id", "in": "path", "required": True},
        {"name": "X-Own", "in": "header"},
        {"name": "q", "in": "query"},
    ]
    tool = tool_of(rows, path="/pets/{id}/x", method="get")
    with pytest.raises(OperationError) as caught:
        tool.operation.build(arguments, base_url=BASE)
    assert caught.value.argument == place
    view = Engine.from_tools([tool], tiers=["lexical"]).view()
    verdict = view.check(tool.id, arguments)
    assert verdict.status == "invalid"
    assert [problem.path for problem in verdict.problems] == [place]


@pytest.mark.parametrize(
    "url",
    ["", "api.example", "ftp://api.example", "https://", "https://a b/", "https://a:x/", "//a"],
)
def test_an_address_must_be_one(url):
    with pytest.raises(OperationError, match="base_url, as http://HOST:PORT/PATH"):
        tool_of().operation.build(base_url=url)


@pytest.mark.parametrize("path", ["@evil.example", "evil", "/a\nb"])
def test_a_path_cannot_change_the_host(path):
    with pytest.raises(ToolError, match=r"operation\.path"):
        tool_of(path=path)


@pytest.mark.parametrize("path", ["/../admin", "/a/%2e%2e/admin", "//evil.example/x", "/a?b=c#d"])
def test_a_path_stays_below_the_address(path):
    operation = tool_of(path=path).operation
    if ".." in path or "%2e" in path:
        with pytest.raises(OperationError, match="without the segments"):
            operation.build(base_url=BASE)
    else:
        assert operation.build(base_url=BASE).url.startswith(f"{BASE}/")


def test_the_server_is_the_nearest_one():
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://{at}.example", "variables": {"at": {"default": "api"}}}],
        "paths": {
            "/a": {"get": {"operationId": "a"}},
            "/b": {"servers": [{"url": "https://b.example/x/"}], "get": {"operationId": "b"}},
        },
    }
    first, second = (tool.operation for tool in read_tools(document).tools)
    assert first.build().url == "https://api.example/a"
    assert second.build().url == "https://b.example/x/b"
    assert (first.has_own_server, second.has_own_server) == (False, True)
    key = first.build(base_url="https://other.example/v2/?key=k%201").url
    assert key == "https://other.example/v2/a?key=k%201"
    with pytest.raises(OperationError, match="base_url, because the document names no server"):
        tool_of().operation.build()


def test_a_request_is_one_of_httpx2_or_its_extra_is_named(monkeypatch):
    tool = tool_of([{"name": "q", "in": "query"}], json_body({"properties": {"a": {}}}))
    request = tool.operation.request({"q": "x y", "a": 1}, base_url=BASE)
    assert (request.method, str(request.url)) == ("POST", f"{BASE}/a?q=x%20y")
    assert (request.headers["content-type"], request.content) == ("application/json", b'{"a":1}')
    real_import = builtins.__import__

    def without_httpx2(name, *args, **kwargs):
        if name == "httpx2":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_httpx2)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[openapi\]'"):
        tool.operation.request({"q": "x"}, base_url=BASE)


def test_a_rule_on_destructive_tools_permits_what_only_reads():
    methods = ("get", "head", "post", "put", "delete")
    paths = {"/a": {method: {"operationId": method} for method in methods}}
    rule = Rule(requires_scope("write"), annotations={"destructiveHint": True})
    engine = Engine.from_tools(
        Catalog.read({"openapi": "3.1.0", "paths": paths}), tiers=["lexical"], gate=Gate([rule])
    )
    # POST and PUT promise nothing, so that the default of MCP holds.
    assert {tool.name for tool in engine.view().tools()} == {"get", "head"}
    assert engine.catalog.get("put").annotations == {"idempotentHint": True, "readOnlyHint": False}
    assert engine.catalog.get("delete").annotations["destructiveHint"] is True


def test_a_deprecated_operation_says_so():
    tool = tool_of(deprecated=True, summary="Old", tags=["pets"])
    assert tool.description == "Deprecated.\nOld\nPOST /a"
    assert tool.tags == ("pets", "deprecated")


def test_the_operation_is_kept_by_rows_files_and_indexes_and_is_in_the_fingerprint(tmp_path):
    rows = [{"name": "a", "in": "path", "style": "matrix"}, {"name": "b", "in": "cookie"}]
    media = {"schema": {"properties": {"f": {"type": "string", "format": "binary"}}}}
    body = {"content": {"multipart/form-data": media}}
    tool = tool_of(rows, body, path="/x/{a}", servers=[{"url": BASE}])
    assert Tool.from_dict(tool.to_dict()) == tool
    assert Tool.from_dict(tool.to_dict()).operation == tool.operation
    assert tool.with_id("other").operation == tool.operation
    Engine.from_tools([tool], tiers=["lexical"]).save(tmp_path / "index")
    opened = Engine.open(tmp_path / "index").catalog[0]
    assert opened == tool
    assert opened.operation == tool.operation
    moved = tool.to_dict()
    moved["operation"]["path"] = "/y/{a}"
    assert Tool.from_dict(moved).fingerprint != tool.fingerprint
    plain = {key: value for key, value in tool.to_dict().items() if key != "operation"}
    assert Tool.from_dict(plain).operation is None
    assert Tool.from_dict(plain).fingerprint != tool.fingerprint


SCHEMES = {
    "a ~/%": {"type": "http", "scheme": "Bearer"},
    "user": {"type": "http", "scheme": "basic"},
    "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "crumb": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "login": {"$ref": "#/components/securitySchemes/oauth"},
    "oauth": {"type": "oauth2", "flows": {}},
    "mutual": {"type": "mutualTLS"},
    "crooked": {"type": "apiKey", "in": "header", "name": "Host"},
}


def secured(security: Any, **operation: Any) -> Operation:
    """An operation of a document whose operations need the bearer token `a ~/%`."""
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://elsewhere.example"}],
        "security": [{"a ~/%": []}],
        "components": {"securitySchemes": SCHEMES},
        "paths": {"/a": {"get": {"operationId": "a", **operation}}},
    }
    if security is not None:
        document["paths"]["/a"]["get"]["security"] = security
    (tool,) = read_tools(document).tools
    assert tool.operation is not None
    assert Tool.from_dict(tool.to_dict()) == tool
    return tool.operation


@pytest.mark.parametrize(
    ("security", "given", "query", "headers"),
    [
        (None, {"a ~/%": "t", "user": "unused"}, "", {"Authorization": "Bearer t"}),
        ([{"user": []}], {"user": "ann:pä"}, "", {"Authorization": "Basic YW5uOnDDpA=="}),
        ([{"login": []}], {"login": "t"}, "", {"Authorization": "Bearer t"}),
        ([{"user": []}, {"head": [], "query": []}], {"head": "h", "query": "&"}, "key=%26", None),
        ([{"crumb": []}], {"crumb": "s;1"}, "", {"Cookie": "sid=s%3B1"}),
        ([], {}, "", {}),
        ([{}, {"head": []}], {}, "", {}),
        ([{}, {"head": []}], {"head": "h"}, "", {"X-Key": "h"}),
        ([{"mutual": []}, {"head": []}], {"mutual": "m", "head": "h"}, "", {"X-Key": "h"}),
    ],
)
def test_a_credential_is_given_by_the_name_of_its_scheme(security, given, query, headers):
    request = secured(security).build(base_url=BASE, credentials=given)
    assert request.url == f"{BASE}/a" + (f"?{query}" if query else "")
    assert request.headers == ({"X-Key": "h"} if headers is None else headers)


def test_a_credential_replaces_an_argument_in_its_place():
    places = (("query", "key"), ("header", "x-key"), ("cookie", "sid"), ("cookie", "b"))
    parameters = [{"in": place, "name": name} for place, name in places]
    security = [{"head": [], "query": [], "crumb": []}]
    operation = secured(security, parameters=parameters)
    given = dict.fromkeys((name for _, name in places), "mine")
    credentials = {"head": "h", "query": "q", "crumb": "c"}
    request = operation.build(given, base_url=f"{BASE}?key=base&x=1", credentials=credentials)
    assert request.url == f"{BASE}/a?x=1&key=q"
    assert request.headers == {"X-Key": "h", "Cookie": "b=mine; sid=c"}


@pytest.mark.parametrize(
    ("security", "given", "base_url", "reason"),
    [
        ([{"user": []}, {"head": [], "query": []}], {"head": "h"}, BASE, "'user', or 'head' and"),
        ([{"mutual": []}, {"gone": []}, {"crooked": []}], {"gone": "x"}, BASE, "no text"),
        ([{"head": []}], {"head": "a\r\nb"}, BASE, "one line of text as credential 'head'"),
        # The address is the document's.
        ([{"head": []}], {"head": "secret"}, None, "base_url, the only address"),
    ],
)
def test_a_credential_that_is_missing_or_cannot_be_sent_is_named(security, given, base_url, reason):
    with pytest.raises(OperationError, match=reason) as caught:
        secured(security).build(base_url=base_url, credentials=given)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (3, "operation"),
        ({"method": "GET", "path": "/a", "security": [3]}, "operation.security"),
        ({"method": "GET", "path": "/a", "security": [{"b": "x y"}]}, "operation.security.b"),
        (
            {"method": "GET", "path": "/a", "security": [{"b": "cookie a\r\nX: y"}]},
            "operation.security.b",
        ),
        ({"method": "get", "path": "/a"}, "operation.method"),
        ({"method": "GET"}, "operation.path"),
        ({"method": "GET", "path": "/a", "arguments": 3}, "operation.arguments"),
        (
            {"method": "GET", "path": "/a", "arguments": {"b": {"in": "x"}}},
            "operation.arguments.b.in",
        ),
        (
            {"method": "GET", "path": "/a", "arguments": {"b": {"in": "query", "style": []}}},
            "operation.arguments.b",
        ),
        ({"method": "GET", "path": "/a", "body": {}}, "operation.body.media_type"),
        (
            {"method": "GET", "path": "/a", "body": {"media_type": "a/b\r\nX: y"}},
            "operation.body.media_type",
        ),
        (
            {"method": "GET", "path": "/a", "body": {"media_type": "a/b", "properties": "ab"}},
            "operation.body.properties",
        ),
    ],
)
def test_a_wrong_operation_is_named(row, field):
    with pytest.raises(ToolError) as caught:
        Tool("a", operation=row)
    assert caught.value.field == field


@pytest.fixture
def anyio_backend():
    return "asyncio"
