"""Parameters flattened out of schemas, however the schema is built."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Parameter, Tool
from shortlist.catalog.parameter import (
    ENUM_LIMIT,
    PARAMETER_DEPTH,
    PARAMETER_LIMIT,
    parameters_of_schema,
)


def paths(schema: dict[str, Any]) -> list[str]:
    return [parameter.path for parameter in parameters_of_schema(schema)]


def test_required_come_first_then_inner_ones() -> None:
    schema = {
        "properties": {
            "filter": {"properties": {"labels": {"items": {"properties": {"name": {}}}}, "by": {}}},
            "title": {"type": "string", "description": "Headline", "enum": ["a", 2, None, True]},
        },
        "required": ["title", 7, "absent"],
    }
    assert parameters_of_schema(schema) == (
        Parameter("title", "title", "Headline", ("a", "2", "true"), required=True),
        Parameter("filter", "filter", "", (), required=False),
        Parameter("labels", "filter.labels", "", (), required=False),
        Parameter("by", "filter.by", "", (), required=False),
        Parameter("name", "filter.labels[].name", "", (), required=False),
    )


def test_values_of_items_and_alternatives_are_gathered() -> None:
    schema = {
        "properties": {
            "states": {"type": "array", "items": {"enum": ["open", "closed"]}},
            "mode": {"anyOf": [{"const": "r", "description": "read"}, {"enum": ["w", "r"]}]},
        }
    }
    states, mode = parameters_of_schema(schema)
    assert states.enum == ("open", "closed")
    assert (mode.enum, mode.description) == (("r", "w"), "read")


def test_alternatives_of_the_whole_schema_are_entered() -> None:
    schema = {
        "oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}, "b": {}}}]
    }
    assert [(p.path, p.required) for p in parameters_of_schema(schema)] == [
        ("a", True),
        ("b", False),
    ]


def test_free_keys_and_positional_items_have_paths() -> None:
    schema = {
        "properties": {
            "env": {"additionalProperties": {"properties": {"value": {}}}},
            "pair": {"items": [{"properties": {"left": {}}}, {"properties": {"right": {}}}]},
        }
    }
    assert paths(schema) == ["env", "pair", "env.*.value", "pair[].left", "pair[].right"]


def test_references_are_followed_and_cycles_end() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "properties": {
                    "value": {"$ref": "#/$defs/a~1b%20c"},
                    "child": {"$ref": "#/$defs/Node"},
                    "next": {"$ref": "#"},
                    "lost": {"$ref": "#/$defs/Nowhere"},
                    "far": {"$ref": "https://example.com/schema.json"},
                    "odd": {"$ref": "#/$defs/Node/properties/value/$ref/3"},
                    "none": {"$ref": 3},
                }
            },
            "a/b c": {"description": "escaped", "enum": ["x"]},
        },
    }
    found = {p.path: p for p in parameters_of_schema(schema)}
    assert found["value"].description == "escaped"
    assert found["value"].enum == ("x",)
    assert {"child", "next", "lost", "far", "odd", "none"} <= found.keys()
    assert "child.value" not in found
    assert "next.value" not in found


def test_a_diamond_of_references_stays_bounded() -> None:
    defs = {
        f"d{i}": {
            "properties": {"l": {"$ref": f"#/$defs/d{i + 1}"}, "r": {"$ref": f"#/$defs/d{i + 1}"}}
        }
        for i in range(40)
    }
    found = parameters_of_schema({"$ref": "#/$defs/d0", "$defs": defs})
    assert 2 <= len(found) <= PARAMETER_LIMIT


def test_breadth_depth_and_values_are_bounded() -> None:
    wide = {"properties": {f"p{i}": {"enum": [str(i) for i in range(500)]} for i in range(1000)}}
    assert len(parameters_of_schema(wide)) == PARAMETER_LIMIT
    assert len(parameters_of_schema(wide)[0].enum) == ENUM_LIMIT
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"properties": {"a": deep}}
    assert paths(deep)[-1].count("a") == PARAMETER_DEPTH
    assert Tool("t", input_schema=deep).parameters == parameters_of_schema(deep)


KEYS = st.sampled_from(
    [
        "properties",
        "items",
        "anyOf",
        "$ref",
        "$defs",
        "required",
        "enum",
        "const",
        "description",
        "a",
        "b",
    ]
)
WORDS = st.sampled_from(
    ["#", "#/$defs/a", "#/properties/a/0", "#/%", "##", "#a", "a", "http://[", "#/~2"]
)
SCHEMAS = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(KEYS, SCHEMAS, max_size=6))
def test_malformed_schemas_are_passed_over(schema: dict[str, Any]) -> None:
    found = parameters_of_schema(schema)
    assert len({p.path for p in found}) == len(found)
    for parameter in found:
        assert parameter.path.endswith(parameter.name)
        assert all(isinstance(value, str) for value in parameter.enum)
