"""OpenAPI documents: operations as tools, references inlined, bad documents named."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from shortlist.catalog import Catalog, read_tools
from shortlist.catalog.readers.openapi_schema import REFERENCE_DEPTH
from shortlist.errors import CatalogError, ToolError

PETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pet Store", "version": "1"},
    "paths": {
        "/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "getPet",
                "summary": "Get a pet",
                "description": "By its number.",
                "tags": ["pets", "read"],
                "parameters": [
                    {
                        "name": "fields",
                        "in": "query",
                        "description": "What to return",
                        "schema": {"type": "string"},
                    },
                    {
                        "name": "at",
                        "in": "query",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                ],
            },
            "put": {"requestBody": {"$ref": "#/components/requestBodies/Pet"}},
        },
        "/photos": {
            "post": {
                "operationId": "upload",
                "requestBody": {"description": "A photo", "content": {"image/png": {}}},
            }
        },
        "x-internal": {"get": {}},
    },
    "components": {
        "parameters": {
            "Id": {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
        },
        "requestBodies": {
            "Pet": {
                "required": True,
                "content": {
                    "text/plain": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
                },
            }
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "kind": {"$ref": "#/components/schemas/Kind", "description": "Species"},
                    "parents": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                },
            },
            "Kind": {"type": "string", "enum": ["cat", "dog"], "description": "Kind"},
        },
    },
}


def with_operation(operation: Any, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.0", "paths": {"/a": {"get": operation}}, **more}


def test_every_operation_is_a_tool() -> None:
    result = read_tools(PETS)
    assert result.format == "openapi"
    catalog = Catalog(result.tools)
    assert [tool.id for tool in catalog] == [
        "Pet Store/getPet",
        "Pet Store/put_pets_id",
        "Pet Store/upload",
    ]
    get = catalog.get("Pet Store/getPet")
    assert get.title == "Get a pet"
    assert get.description == "Get a pet\nBy its number.\nGET /pets/{id}"
    assert get.tags == ("pets", "read")
    assert get.input_schema == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "fields": {"type": "string", "description": "What to return"},
            "at": {"type": "object"},
        },
        "required": ["id"],
        "additionalProperties": False,
    }


def test_body_properties_become_arguments_and_cycles_end() -> None:
    put = Catalog.read(PETS).get("Pet Store/put_pets_id")
    schema = put.input_schema
    assert schema["required"] == ["id", "name"]
    assert schema["properties"]["kind"] == {
        "type": "string",
        "enum": ["cat", "dog"],
        "description": "Species",
    }
    assert schema["properties"]["parents"] == {"type": "array", "items": {"type": "object"}}
    assert "$ref" not in json.dumps(schema)
    assert [p.path for p in put.parameters] == ["id", "name", "kind", "parents"]


def test_a_body_without_properties_is_one_argument() -> None:
    upload = Catalog.read(PETS).get("Pet Store/upload")
    assert upload.input_schema == {
        "type": "object",
        "properties": {
            "body": {"type": "string", "contentEncoding": "base64", "description": "A photo"}
        },
        "additionalProperties": False,
    }


def test_a_body_that_clashes_with_parameters_is_one_argument() -> None:
    operation = {
        "parameters": [{"name": "id", "in": "query"}, {"name": "body", "in": "query"}],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"properties": {"id": {}}}}},
        },
    }
    (tool,) = read_tools(with_operation(operation)).tools
    assert set(tool.input_schema["properties"]) == {"id", "body", "body_"}
    assert tool.input_schema["required"] == ["body_"]


def test_an_operation_overrides_the_parameters_of_its_path() -> None:
    document = copy.deepcopy(PETS)
    own = {"name": "id", "in": "path", "schema": {"type": "string"}}
    document["paths"]["/pets/{id}"]["get"]["parameters"] = [own]
    schema = Catalog.read(document).get("Pet Store/getPet").input_schema
    # Without it there is no path, whatever the document says.
    assert schema["required"] == ["id"]
    assert schema["properties"] == {"id": {"type": "string"}}


def test_yaml_and_the_server_argument(tmp_path: Path) -> None:
    path = tmp_path / "petstore.yaml"
    path.write_text(
        "openapi: 3.0.3\ninfo: {version: 1.0.0}\n"
        "paths:\n  /now:\n    get: {summary: Time, responses: {200: {}}}\n"
    )
    assert read_tools(path).tools[0].id == "get_now"
    assert read_tools(path, server="clock").tools[0].id == "clock/get_now"
    assert read_tools(tmp_path).tools[0].id == "petstore/get_now"


def test_a_path_item_may_stand_elsewhere() -> None:
    document = {
        "openapi": "3.1.0",
        "paths": {"/a": {"$ref": "#/components/pathItems/A"}, "/b": {"$ref": "other.yaml"}},
        "components": {"pathItems": {"A": {"get": {"operationId": "a"}}}},
    }
    result = read_tools(document, strict=False)
    assert [tool.id for tool in result.tools] == ["a"]
    [rejected] = result.rejected
    reason = "refers to 'other.yaml', which is not in this document"
    assert (rejected.where, rejected.field, rejected.reason) == ("paths./b", "$ref", reason)


def test_references_in_a_fan_stay_bounded() -> None:
    schemas = {
        f"s{i}": {"properties": {k: {"$ref": f"#/components/schemas/s{i + 1}"} for k in "abcdefgh"}}
        for i in range(30)
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/s0"}}}
    document = with_operation(
        {"requestBody": {"content": content}}, components={"schemas": schemas}
    )
    result = read_tools(document, strict=False)
    assert len(result.tools) == 1
    deepest = max(p.path.count(".") for p in result.tools[0].parameters)
    assert 1 <= deepest <= REFERENCE_DEPTH


@pytest.mark.parametrize(
    ("operation", "field"),
    [
        (3, "get"),
        ({"parameters": 3}, "parameters"),
        ({"parameters": [3]}, "parameters[0]"),
        ({"parameters": [{"in": "query"}]}, "parameters[0].name"),
        ({"parameters": [{"name": "a"}]}, "parameters[0].in"),
        ({"parameters": [{"name": "a", "in": "body"}]}, "parameters[0].in"),
        ({"parameters": [{"name": "a", "in": "path", "style": "form"}]}, "parameters[0].style"),
        ({"parameters": [{"name": "a", "in": "query", "schema": 3}]}, "parameters[0].schema"),
        ({"requestBody": {"content": {"a/b\r\nX: y": {}}}}, "requestBody.content.a/b\r\nX: y"),
        ({"parameters": [{"$ref": "#/nowhere"}]}, "parameters[0].$ref"),
        ({"parameters": [{"$ref": 3}]}, "parameters[0].$ref"),
        ({"parameters": [{"$ref": "#/loop"}]}, "parameters[0]"),
        ({"parameters": [{"$ref": "common.yaml#/Id"}]}, "parameters[0].$ref"),
        (
            {"parameters": [{"name": "a", "in": "query", "schema": {"items": [{"$ref": "#/no"}]}}]},
            "parameters[0].schema.items[0].$ref",
        ),
        ({"requestBody": 3}, "requestBody"),
        ({"operationId": 3}, "name"),
        ({"tags": "x"}, "tags"),
        ({"summary": 3}, "title"),
    ],
)
def test_bad_operations_are_named(operation: Any, field: str) -> None:
    document = with_operation(operation, loop={"$ref": "#/loop"})
    with pytest.raises(ToolError) as caught:
        read_tools(document)
    assert (caught.value.where, caught.value.field) == ("paths./a.get", field)


def test_a_schema_nested_past_the_bound_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(ToolError, match="nested deeper"):
        read_tools(with_operation({"parameters": [{"name": "a", "in": "query", "schema": schema}]}))


def test_a_schema_past_the_budget_is_refused() -> None:
    shared: list[Any] = ["x"]
    for _ in range(40):
        shared = [shared, shared]
    parameter = {"name": "a", "in": "query", "schema": {"enum": shared}}
    with pytest.raises(ToolError, match="holds more than"):
        read_tools(with_operation({"parameters": [parameter]}))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"swagger": "2.0", "paths": {}}, "must be 3.x, got '2.0'"),
        ({"openapi": 3.0, "paths": []}, "paths: must be an object, got list"),
        ({"openapi": 3.1, "paths": []}, "paths: must be an object, got list"),
        ({"swagger": 2.0, "paths": {}}, "must be 3.x, got '2.0'"),
        ({"openapi": None}, "must be 3.x, got NoneType"),
    ],
)
def test_documents_of_another_kind_are_refused(document: Any, reason: str) -> None:
    with pytest.raises(CatalogError, match=reason):
        read_tools(document)


def _posting(count: int, schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": schema}}}
    return {
        "openapi": "3.0.0",
        "paths": {f"/p{i}": {"post": {"requestBody": body}} for i in range(count)},
        "components": components,
    }


_TREE = {
    f"S{depth}": {
        "type": "object",
        "properties": {f"k{i}": {"$ref": f"#/components/schemas/S{depth + 1}"} for i in range(12)},
    }
    for depth in range(6)
} | {"S6": {"type": "string"}}
_LARGE = {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(1_500)}}
_PLACES = ("query", "cookie")
_MANY = {
    "get": {
        "parameters": [{"name": f"p{i}", "in": place} for i in range(700) for place in _PLACES],
        "servers": [{"url": "http://{a}", "variables": {f"v{i}": {} for i in range(5_000)}}],
        "requestBody": {"content": {f"a/b{i}": {} for i in range(5_000)}},
    }
}
_ALL_OF: dict[str, Any] = {"properties": {f"f{i}": {"readOnly": True} for i in range(1_000)}}
for _ in range(25):
    _ALL_OF = {"allOf": [_ALL_OF], "nullable": True}
_REPEATED = {"post": {"requestBody": {"content": {"application/json": {"schema": _LARGE}}}}}


@pytest.mark.parametrize(
    "document",
    [
        _posting(1_000, {"$ref": "#/components/schemas/S0"}, {"schemas": _TREE}),
        _posting(1_000, {"$ref": "#/components/schemas/B"}, {"schemas": {"B": _LARGE}}),
        {
            "openapi": "3.0.0",
            "paths": {f"/p{i}": {"$ref": "#/x-base"} for i in range(2_000)},
            "x-base": _REPEATED,
        },
        {
            "openapi": "3.0.0",
            "paths": {f"/p{i}": {"$ref": "#/x-base"} for i in range(2_000)},
            "x-base": _MANY,
        },
        _posting(1_000, {"$ref": "#/components/schemas/A"}, {"schemas": {"A": _ALL_OF}}),
    ],
    ids=["references that branch", "one large schema", "one path for all", "lists", "allOf"],
)
@pytest.mark.no_cover
def test_a_small_document_never_takes_long(document: dict[str, Any]) -> None:
    """Goal: a second, on an idle machine; the rest is for a busy one with coverage measured."""
    start = process_time()
    read = read_tools(document, strict=False)
    assert process_time() - start < 10
    assert read.tools
    assert len(read.tools) + len(read.rejected) == len(document["paths"])


@pytest.mark.no_cover
def test_every_operation_gets_a_share_of_what_is_spelled_out() -> None:
    read = read_tools(_posting(1_000, {"$ref": "#/components/schemas/S0"}, {"schemas": _TREE}))
    assert all(len(tool.input_schema["properties"]) == 12 for tool in read.tools)


def test_what_is_not_spelled_out_keeps_its_type_and_is_reported_once() -> None:
    place = "#/components/schemas"
    schemas = {
        f"S{i}": {"type": "object", "properties": {"in": {"$ref": f"{place}/S{i + 1}"}}}
        for i in range(REFERENCE_DEPTH + 1)
    } | {f"S{REFERENCE_DEPTH + 1}": {"type": "string"}}
    document = _posting(2, {"$ref": "#/components/schemas/S0"}, {"schemas": schemas})
    read = read_tools(document)
    deepest = read.tools[0].input_schema["properties"]
    while "properties" in deepest.get("in", {}):
        deepest = deepest["in"]["properties"]
    assert deepest == {"in": {"type": "object"}}
    assert read.notes == (
        "2 references are too deep or too large to be spelled out: of the arguments they describe "
        "only the type is kept",
    )
    wide = read_tools(
        _posting(1_000, {"$ref": "#/components/schemas/B"}, {"schemas": {"B": _LARGE}})
    )
    shortened = [one for one in wide.tools if "body" in one.input_schema["properties"]]
    assert 0 < len(shortened) < len(wide.tools)
    assert all(one.input_schema["properties"]["body"] == {"type": "object"} for one in shortened)
    assert len(wide.notes) == 1


def test_the_operations_of_a_usual_document_are_spelled_out_whole() -> None:
    model = {"type": "object", "properties": {f"f{i}": {"type": "string"} for i in range(30)}}
    schemas = {f"M{i}": model for i in range(50)}
    paths = _posting(1, {}, {"schemas": schemas})
    body = [{"$ref": f"#/components/schemas/M{i % 50}"} for i in range(1_000)]
    paths["paths"] = {
        f"/p{i}": {"post": {"requestBody": {"content": {"application/json": {"schema": one}}}}}
        for i, one in enumerate(body)
    }
    read = read_tools(paths)
    assert all(len(tool.input_schema["properties"]) == 30 for tool in read.tools)
    assert read.notes == ()
