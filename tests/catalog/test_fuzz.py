"""Whatever is read, the outcome is a result or an error of this package, soon."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist.catalog import Catalog, read_tools
from shortlist.catalog.readers import READERS
from shortlist.errors import ShortlistError

FORMATS = ["auto", *(reader.name for reader in READERS)]
WORDS = st.sampled_from(
    "name id server title description tags input_schema inputSchema parameters tools functions "
    "type function query result serverInfo openapi info paths get post /a operationId "
    "requestBody content "
    "application/json schema $ref #/paths #/paths/~1a # 3.0.0 properties items required enum "
    "components object model [{}] {}".split()
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(st.characters(), max_size=6),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Mn"]), max_size=3),
    WORDS,
)
ANY = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(WORDS, WORDS, WORDS, st.text(max_size=3)), inner, max_size=6),
    ),
    max_leaves=40,
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "description": "text", "enum": ["x", "y"]},
        "b": {"items": {"$ref": "#/$defs/c"}},
    },
    "required": ["a"],
    "$defs": {"c": {"properties": {"d": {"$ref": "#/$defs/c"}}}},
}
VALID: list[Any] = [
    {
        "server": "s",
        "serverInfo": {"name": "x"},
        "tools": [{"name": "t", "description": "d", "inputSchema": SCHEMA}, {"name": "u"}],
    },
    {"result": {"tools": [{"name": "t", "annotations": {"a": 1}, "outputSchema": SCHEMA}]}},
    [{"type": "function", "function": {"name": "t", "parameters": SCHEMA}}],
    [{"name": "t", "description": "d", "input_schema": SCHEMA}],
    [
        {
            "id": "i",
            "name": "t",
            "server": None,
            "description": "d",
            "input_schema": SCHEMA,
            "tags": ["x"],
        }
    ],
    {"SKILL.md": "---\nname: t\ndescription: d\nallowed-tools: a, b\n---\nText.", "folder": "t"},
    {
        "openapi": "3.0.0",
        "info": {"title": "i"},
        "paths": {
            "/a": {
                "parameters": [{"$ref": "#/components/parameters/p"}],
                "get": {"operationId": "o", "summary": "s", "tags": ["t"]},
                "post": {
                    "requestBody": {
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/schemas/s"}}
                        }
                    }
                },
            }
        },
        "components": {
            "parameters": {"p": {"name": "p", "in": "query", "schema": {"type": "string"}}},
            "schemas": {"s": {"properties": {"x": {"$ref": "#/components/schemas/s"}}}},
        },
    },
]


def nested(levels: int, container: type) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value] if container is list else {"properties": value}
    return value


CYCLE: dict[str, Any] = {"name": "t"}
CYCLE["tools"] = [CYCLE]
CYCLE["properties"] = CYCLE
BOMB: Any = "x"
for _ in range(60):
    BOMB = {"properties": BOMB, "items": BOMB}
HOSTILE = [
    nested(10_000, dict),
    nested(10_000, list),
    CYCLE,
    BOMB,
    "d" * 1_000_000,
    {f"k{i}": i for i in range(10_000)},
    float("nan"),
    10**5000,
    "\ud800\udc00\u202e" * 100,
    {1: 2, None: 3},
    {"$ref": "#"},
    object(),
]


def outcome(source: Any, form: str = "auto") -> None:
    """Read strictly and not; whatever is neither a result nor a ShortlistError fails the test."""
    try:
        result = read_tools(source, format=form, strict=False)
    except ShortlistError:
        with pytest.raises(ShortlistError) as caught:
            read_tools(source, format=form)
        assert len(str(caught.value)) < 5000
        return
    catalog = Catalog(result.tools)
    json.dumps([tool.to_dict() for tool in catalog], allow_nan=False).encode()
    for tool in catalog:
        assert catalog.get(tool.id) is tool
        assert len(tool.parameters) <= 256
    assert all(rejected.field and rejected.reason for rejected in result.rejected)
    if result.rejected:
        with pytest.raises(ShortlistError):
            read_tools(source, format=form)
    else:
        assert read_tools(source, format=form).tools == result.tools


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    return [path, *(p for key, child in members for p in places(child, (*path, key)))]


def mutated(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def is_paths(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and any(isinstance(v, str) for v in value)
    )


@given(ANY.filter(lambda value: not is_paths(value)), st.sampled_from(FORMATS))
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused(value: Any, form: str) -> None:
    outcome(value, form)


@given(st.sampled_from(VALID), st.data())
@settings(max_examples=200, deadline=None)
def test_a_valid_document_with_one_part_replaced_is_read_or_refused(
    document: Any, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from(places(document)))
    value = mutated(document, path, data.draw(ANY))
    if not is_paths(value):
        outcome(value)


@pytest.mark.parametrize("document", VALID, ids=range(len(VALID)))
def test_valid_documents_are_valid(document: Any) -> None:
    assert read_tools(document).tools


@pytest.mark.parametrize("number", range(len(HOSTILE)))
@pytest.mark.parametrize("document", VALID, ids=range(len(VALID)))
def test_hostile_parts_are_read_or_refused(document: Any, number: int) -> None:
    hostile = HOSTILE[number]
    # Every second place, another half for the next value.
    for path in places(document)[1 + number % 2 :: 2]:
        value = mutated(document, path[:-1] + path[-1:], 0)
        inner = value
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = hostile
        if not is_paths(value):
            outcome(value)


@given(
    st.text(st.sampled_from('{}[]",:\\ \n\tnu1e9-.&*!|>?#%@ab<<\u00e9\x00\ud800'), max_size=60),
    st.sampled_from(["a.json", "a.jsonl", "a.yaml"]),
)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_is_read_or_refused(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome(path)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.yaml"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"tools": [{"name": "t", "inputSchema": ' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}]}",
        '{"tools": [{"name": "t", "description": "' + "d" * 10_000_000 + '"}]}',
        '{"tools": [{"name": "t", "inputSchema": {"x": NaN, "y": 1e999}}, {"name": "u"}]}',
        '{"tools": [' + ",".join(['{"name": "t"}'] * 5_000) + "]}",
        '{"tools": [{"name": "' + "\\ud83d" * 5_000 + '"}]}',
        '[{"id": "' + "i" * 100_000 + '", "name": "t"}]',
    ],
    ids=["deep", "deep-schema", "long", "nan", "duplicates", "surrogates", "long-id"],
)
def test_hostile_files_are_read_or_refused(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    outcome(path)


def test_a_yaml_alias_bomb_is_refused_soon(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}"] + [
        f"a{i}: &a{i} {{l: *a{i - 1}, r: *a{i - 1}}}" for i in range(1, 60)
    ]
    path = tmp_path / "a.yaml"
    path.write_text("\n".join([*lines, "tools: [{name: t, inputSchema: *a59}]"]))
    (rejected,) = read_tools(path, strict=False).rejected
    assert rejected.field == "input_schema"
    outcome(path, "openapi")
