"""Tool: identity, content, bounds, and errors that name the field."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.catalog.schema import SCHEMA_BYTES, SCHEMA_DEPTH, SCHEMA_VALUES
from shortlist.catalog.text_cleaning import DESCRIPTION_LIMIT, NAME_LIMIT
from shortlist.errors import ToolError

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "Headline"},
        "n": {"type": "integer"},
    },
    "required": ["title"],
}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc$\u0301é", max_size=4), JSON, max_size=5)


def shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        keys = data.draw(st.permutations(list(value)))
        return {key: shuffled(value[key], data) for key in keys}
    return [shuffled(item, data) for item in value] if isinstance(value, list) else value


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_a_tool_keeps_what_it_is_given() -> None:
    tool = Tool(
        "create_issue",
        "github",
        "Open an issue",
        SCHEMA,
        title="Create issue",
        output_schema={"type": "object"},
        annotations={"readOnlyHint": False},
        tags=["issues", "write", "issues"],
    )
    assert tool.id == "github/create_issue"
    assert (tool.name, tool.server, tool.title) == ("create_issue", "github", "Create issue")
    assert tool.input_schema == SCHEMA
    assert tool.output_schema == {"type": "object"}
    assert tool.annotations == {"readOnlyHint": False}
    assert tool.tags == ("issues", "write")
    assert tool.cleaned == ()
    assert [p.name for p in tool.parameters] == ["title", "n"]
    assert tool.to_mcp() == {
        "name": "create_issue",
        "title": "Create issue",
        "description": "Open an issue",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": False},
    }


def test_ids_default_to_server_and_name() -> None:
    assert Tool("search").id == "search"
    assert Tool("search", "@scope/pkg").id == "@scope/pkg/search"
    assert Tool("search", "web", id="web_1").id == "web_1"


def test_a_tool_without_schema_takes_no_arguments() -> None:
    assert Tool("now").input_schema == {"type": "object", "properties": {}}
    assert Tool("now").parameters == ()
    assert Tool("now", input_schema={}).to_mcp()["inputSchema"] == {"type": "object"}


def test_a_tool_cannot_be_changed() -> None:
    tool = Tool("a", input_schema=SCHEMA)
    with pytest.raises(AttributeError, match="name"):
        tool.name = "b"
    with pytest.raises(AttributeError, match="name"):
        del tool.name
    with pytest.raises((AttributeError, TypeError)):
        tool.extra = 1
    tool.input_schema["properties"].clear()
    assert tool.input_schema == SCHEMA


def test_equality_and_hash_are_by_id_and_content() -> None:
    assert Tool("a", "s", "x") == Tool("a", "s", "x")
    assert hash(Tool("a", "s", "x")) == hash(Tool("a", "s", "x"))
    assert Tool("a", "s", "x") != Tool("a", "s", "y")
    assert Tool("a", "s", "x") != Tool("a", "s", "x", id="other")
    assert Tool("a\u200b") == Tool("a")
    assert Tool("a") != "a"


def test_the_fingerprint_covers_everything_but_the_id() -> None:
    given: dict[str, Any] = {"name": "a", "server": "s", "description": "d", "title": "t"}
    base = Tool(**given)
    changes: list[dict[str, Any]] = [
        {"name": "b"},
        {"server": None},
        {"description": "e"},
        {"title": "u"},
        {"tags": ["x"]},
        {"input_schema": {}},
        {"output_schema": {}},
        {"annotations": {}},
    ]
    prints = {Tool(**(given | change)).fingerprint for change in changes}
    assert len(prints | {base.fingerprint}) == len(changes) + 1
    assert Tool(**given, id="elsewhere").fingerprint == base.fingerprint
    assert len(base.fingerprint) == 32


def test_pickling_and_copying_keep_everything() -> None:
    tool = Tool("a", "s", "d\u200b", SCHEMA, tags=["t"])
    for twin in (pickle.loads(pickle.dumps(tool)), copy.deepcopy(tool), copy.copy(tool)):
        assert twin == tool
        assert twin.cleaned == tool.cleaned


def test_another_id_changes_nothing_else() -> None:
    tool = Tool("a", "s", "d", SCHEMA)
    other = tool.with_id("s/a~2")
    assert (other.id, other.fingerprint, tool.id) == ("s/a~2", tool.fingerprint, "s/a")


def test_text_inside_schemas_is_cleaned_keys_included() -> None:
    schema = {
        "properties": {
            "na\u200bme": {"description": "x\u202ey", "enum": ["a\u2060"], "title": "t" * 20_000}
        }
    }
    tool = Tool("a", input_schema=schema)
    prose = {"description": "xy", "enum": ["a"], "title": "t" * DESCRIPTION_LIMIT}
    assert tool.input_schema == {"properties": {"name": prose}}
    assert tool.cleaned == (
        "input_schema.properties (key): 1 zero-width character",
        "input_schema.properties.name.description: 1 bidi override character",
        "input_schema.properties.name.enum[0]: 1 zero-width character",
        f"input_schema.properties.name.title: cut from 20,000 to {DESCRIPTION_LIMIT:,} characters",
    )


def test_a_huge_description_is_cut_not_refused() -> None:
    text = "d" * 10_000_000
    tool = Tool("a", description=text, input_schema={"description": text})
    assert len(tool.description) == DESCRIPTION_LIMIT
    assert len(tool.input_schema["description"]) == DESCRIPTION_LIMIT
    assert len(tool.cleaned) == 2


CYCLE: dict[str, Any] = {}
CYCLE["properties"] = {"self": CYCLE}
SHARED: list[Any] = ["x"]
for _ in range(40):
    SHARED = [SHARED, SHARED]


@pytest.mark.parametrize(
    ("field", "reason", "fields"),
    [
        ("name", "must be text, got int", {"name": 3}),
        ("name", "nothing visible", {"name": " \u200b\n"}),
        ("name", "more than 256", {"name": "n" * (NAME_LIMIT + 1)}),
        ("name", "more than 256", {"name": "n" * 10_000_000}),
        ("server", "is empty", {"server": ""}),
        ("id", "must be text, got list", {"id": []}),
        ("title", "must be text", {"title": 1}),
        ("description", "got NoneType", {"description": None}),
        ("tags", "must be a list of texts, got str", {"tags": "abc"}),
        ("tags", "must be a list of texts, got int", {"tags": 3}),
        ("tags[1]", "must be text", {"tags": ["a", None]}),
        ("input_schema", "must be an object, got bool", {"input_schema": True}),
        ("output_schema", "must be an object, got list", {"output_schema": []}),
        ("annotations", "must be an object, got str", {"annotations": "x"}),
        (
            "input_schema.properties.x.default",
            "is nan",
            {"input_schema": {"properties": {"x": {"default": float("nan")}}}},
        ),
        ("annotations.a[1]", "is -inf", {"annotations": {"a": [0, float("-inf")]}}),
        ("input_schema.x", "is set, not a JSON value", {"input_schema": {"x": {1}}}),
        ("input_schema.x", "integer of more than", {"input_schema": {"x": 10**5000}}),
        ("input_schema.enum", "has a key of type int", {"input_schema": {"enum": {1: 2}}}),
        ("input_schema", "two keys", {"input_schema": {"a": 1, "a\u200b": 2}}),
        ("input_schema.a.a.a", "nested deeper", {"input_schema": nested(SCHEMA_DEPTH + 1)}),
        ("input_schema.a.a.a", "nested deeper", {"input_schema": nested(100_000)}),
        ("input_schema.properties.self", "nested deeper", {"input_schema": CYCLE}),
        (
            "input_schema",
            "more than 50,000",
            {"input_schema": {"x": nested(63), "y": SHARED}},
        ),
        ("input_schema", "more than 50,000 values", {"input_schema": {"y": SHARED}}),
        (
            "input_schema",
            "more than 50,000 values",
            {"input_schema": {"enum": [0] * (SCHEMA_VALUES + 1)}},
        ),
        ("input_schema", "bytes as JSON", {"input_schema": {"pattern": "p" * SCHEMA_BYTES}}),
        ("input_schema", "bytes as JSON", {"input_schema": {"p" * SCHEMA_BYTES: 1}}),
        (
            "input_schema",
            "bytes as JSON",
            {"input_schema": {"pattern": "é" * (SCHEMA_BYTES - 100)}},
        ),
    ],
)
def test_bad_values_are_refused_with_field_and_reason(
    field: str, reason: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(ToolError, match=reason) as caught:
        Tool(**({"name": "t"} | fields))
    assert caught.value.field.startswith(field.split(".a.a")[0])
    assert len(str(caught.value)) < 1500


def test_a_schema_at_the_bounds_is_taken() -> None:
    assert Tool("a", input_schema=nested(SCHEMA_DEPTH)).input_schema == nested(SCHEMA_DEPTH)
    enum = [0] * (SCHEMA_VALUES - 2)
    assert len(Tool("a", input_schema={"enum": enum}).input_schema["enum"]) == len(enum)


def test_too_many_tags_are_cut_with_a_note() -> None:
    tool = Tool("a", tags=[f"t{i}" for i in range(100)])
    assert len(tool.tags) == 64
    assert tool.cleaned == ("tags: cut to the first 64",)


def test_a_row_without_a_name_says_so() -> None:
    with pytest.raises(ToolError, match="name: is missing"):
        Tool.from_dict({"description": "x"})


@given(
    st.text(min_size=1, max_size=20).filter(lambda s: any(c.isalnum() for c in s)),
    st.none() | st.from_regex(r"[a-z@/]{1,10}", fullmatch=True),
    st.text(max_size=60),
    OBJECTS,
    st.none() | OBJECTS,
    st.lists(st.text(max_size=5), max_size=4),
)
def test_rows_round_trip(
    name: str,
    server: str | None,
    description: str,
    schema: dict[str, Any],
    output: dict[str, Any] | None,
    tags: list[str],
) -> None:
    try:
        tool = Tool(name, server, description, schema, output_schema=output, tags=tags)
    except ToolError as error:
        refused = error.reason
        event(refused.split()[0])
        if "two keys" not in refused and "visible" not in refused:
            raise
        return
    again = Tool.from_dict(json.loads(json.dumps(tool.to_dict())))
    assert again == tool
    assert (again.server, again.tags, again.description) == (
        tool.server,
        tool.tags,
        tool.description,
    )
    assert again.cleaned == ()


@given(OBJECTS, st.data())
@settings(max_examples=60)
def test_key_order_does_not_change_the_fingerprint(
    schema: dict[str, Any], data: st.DataObject
) -> None:
    try:
        tool = Tool("a", input_schema=schema)
    except ToolError:
        return
    assert Tool("a", input_schema=shuffled(schema, data)).fingerprint == tool.fingerprint
    assert Tool("a", input_schema={**schema, "zz": 1}).fingerprint != tool.fingerprint
