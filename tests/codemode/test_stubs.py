"""Stubs: what a schema becomes in Python, that it parses and type-checks, and what it costs."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from mypy import api as mypy

from shortlist import Catalog, Tool
from shortlist.catalog import read_tools
from shortlist.codemode.script_names import ToolNames, identifier, identifiers
from shortlist.codemode.stubs import STUB_IMPORTS, Stubs
from shortlist.errors import ToolError

from .tokens import tokens


def stubs_of(*tools: Tool) -> str:
    return Stubs(tools, ToolNames(Catalog(tools))).text()


def tool(properties=None, *, name="do", output=None, description="Does it.", **schema) -> Tool:
    made = {"type": "object", "properties": properties or {}, **schema}
    return Tool(name, "srv", description, made, output_schema=output)


def function(*tools: Tool) -> str:
    """The first function's first line."""
    return next(line.strip() for line in stubs_of(*tools).splitlines() if "async def" in line)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"enum": [1, None]}, "Literal[1] | None"),
        ({"const": "x"}, "Literal['x']"),
        ({"enum": [f"c{i}" for i in range(500)]}, "str"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "str | None"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({"$ref": "#/$defs/Name"}, "str"),
        ({"$ref": "#/nowhere"}, "Any"),
        ({"$ref": "https://example.com/schema"}, "Any"),
        ({"type": "colour"}, "Any"),
        ({"type": 7, "enum": "no"}, "Any"),
        (True, "Any"),
        ({}, "Any"),
    ],
)
def test_types(schema, kind):
    made = tool({"a": schema}, required=["a"], **{"$defs": {"Name": {"type": "string"}}})
    assert function(made) == f"async def do(self, *, a: {kind}) -> Any:"


def test_defaults_and_optionals_come_after_what_is_required():
    made = tool(
        {
            "limit": {"type": "integer", "default": 10},
            "state": {"enum": ["open", "closed"], "default": "open"},
            "label": {"type": "string"},
            "wrong": {"type": "integer", "default": "ten"},
            "owner": {"type": "string"},
        },
        required=["owner"],
    )
    assert function(made) == (
        "async def do(self, *, owner: str, label: str = ..., limit: int = 10, "
        "state: Literal['open', 'closed'] = 'open', wrong: int = ...) -> Any:"
    )


def test_objects_become_typed_dicts_and_equal_ones_are_shared():
    person = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    }
    text = stubs_of(tool({"who": person, "boss": person}), tool(name="other", output=person))
    assert text.count("(TypedDict)") == 1
    assert "    age: NotRequired[int]\n    name: str\n" in text


def test_objects_with_further_fields_show_those_that_are_known():
    open_one = {
        "type": "object",
        "properties": {"page_id": {"type": "string"}},
        "required": ["page_id"],
        "additionalProperties": True,
    }
    text = stubs_of(tool({"parent": open_one}, output=open_one))
    assert "parent: DoParent | dict[str, Any] = ...) -> dict[str, Any]:" in text
    assert "class DoParent(TypedDict):\n    page_id: str\n" in text


def test_a_schema_that_contains_itself():
    node = {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "next": {"$ref": "#/$defs/Node"},
        },
        "required": ["value"],
    }
    text = stubs_of(tool({"head": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}}))
    assert "class DoNode(TypedDict):\n    next: NotRequired[DoNode]\n    value: int\n" in text


def test_names_that_are_no_identifiers_are_made_ones_and_stated():
    text = stubs_of(tool({"from": {"type": "string"}, "x-y": {"type": "string"}}, name="get-sum"))
    assert "async def get_sum(self, *, from_: str = ..., x_y: str = ...) -> Any:" in text
    assert "(tool: get-sum)" in text
    assert "from_: sent as 'from'." in text
    assert "x_y: sent as 'x-y'." in text


def test_a_server_named_as_a_module_does_not_hide_it():
    tools = [Tool("now", "time"), Tool("list", "git"), Tool("run")]
    names = ToolNames(Catalog(tools))
    assert [names.function_of(one.id) for one in tools] == [
        ("time_", "now"),
        ("git", "list_"),
        ("tools", "run"),
    ]


def test_a_docstring_cannot_end_itself():
    text = stubs_of(tool(description='Ends. """\nimport os\n"""\\'))
    assert [type(one) for one in ast.parse(text).body[2].body] == [ast.AsyncFunctionDef]


_NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["get-sum", "get_sum", "get sum", "class", "class_", "_x", "x", "ﬁ", "fi", "str", "2", "t2"]
)


@given(st.lists(_NAMES, unique=True, max_size=20), st.randoms())
def test_identifiers_are_distinct_valid_and_do_not_depend_on_order(names, random):
    made = identifiers(names)
    assert all(one.isidentifier() for one in made.values())
    assert len(set(made.values())) == len(names)
    shuffled = list(names)
    random.shuffle(shuffled)
    assert identifiers(shuffled) == made
    assert all(made[name] == name for name in names if identifier(name) == name)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "properties", "items", "enum", "const", "anyOf", "allOf", "$ref"),
                    *("required", "additionalProperties", "default", "description", "a", "str"),
                ]
            )
            | st.text(max_size=6),
            inner | st.sampled_from(["object", "array", "string", "#", "#/properties/a"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["properties", "type", "required", "allOf"]), _JSON))
def test_any_json_gives_stubs_that_parse(schema):
    try:
        made = Tool("do", "srv", "Does it.", {**schema, "type": "object"}, output_schema=schema)
    except ToolError:
        reject()  # Such as an integer that no double holds.
    ast.parse(stubs_of(made))


def _references(count: int) -> dict:
    return {
        f"n{i}": {
            "type": "object",
            "properties": {
                key: {"$ref": f"#/$defs/n{(i * 7 + j) % count}"} for j, key in enumerate("abcdefg")
            },
        }
        for i in range(count)
    }


_DOUBLING = {f"n{i}": {"anyOf": [{"$ref": f"#/$defs/n{i + 1}"}] * 2} for i in range(60)}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": _references(300)},
        {"properties": {"a": {"$ref": "#/$defs/n0"}}, "$defs": _DOUBLING},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"enum": [f"x{i}" for i in range(20_000)]}}},
        {
            "properties": {
                f"p{i}": {"type": "object", "properties": {f"q{i}_{j}": {} for j in range(99)}}
                for i in range(150)
            }
        },
        {"properties": {f"{chr(0x4E00 + i)}-": {"description": '"\\' * 30} for i in range(1500)}},
    ],
    ids=["references", "doubling", "itself", "choices", "wide", "names"],
)
def test_hostile_schemas_cost_little(schema):
    made = Tool("do", "srv", "Does it.", {"type": "object", **schema})
    start = time.thread_time()
    text = stubs_of(made)
    assert time.thread_time() - start < 0.5
    assert len(text) < 60_000
    ast.parse(text)


def test_a_deep_schema_ends_in_the_loose_type():
    deep = {"type": "string"}
    for _ in range(20):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    assert "a: Any" in stubs_of(tool({"a": deep}))


#: Results without a type are `Any`, which strict mypy wants written.
_SHOWN = ("--allow-untyped-defs", "--allow-incomplete-defs")


def _type_checks(text: str, folder, *options: str) -> None:
    path = folder / "stubs.pyi"
    path.write_text(text, encoding="utf-8")
    said, problems, code = mypy.run(["--cache-dir", str(folder / "cache"), *options, str(path)])
    assert code == 0, said + problems


def test_stubs_of_real_servers_type_check_and_cost_at_most_two_fifths(shared_data, tmp_path):
    tools = []
    for path in sorted((shared_data / "mcp_dumps").glob("*.json")):
        tools += read_tools(path, server=path.stem).tools
    made = Stubs(tools, ToolNames(Catalog(tools)))
    _type_checks(made.text(), tmp_path)
    _type_checks(STUB_IMPORTS + made.for_model(), tmp_path, *_SHOWN)
    stubs, definitions, _ = tokens(tools)
    assert stubs <= 0.28 * definitions


def test_stubs_of_hostile_names_type_check(tmp_path):
    fields = {name: {"type": "string"} for name in ("str", "list", "Any", "class", "x-y", "__a")}
    record = {"type": "object", "properties": fields}
    named = [
        tool({"a": record}, name=name) for name in ("str", "list", "dict", "get-x", "get_x", "def")
    ]
    _type_checks(stubs_of(*named), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        *("eval/livemcpbench", "eval/mcp_dev", "eval/poison", "train/mcp", "train/mcp_crawl"),
        *("train/metatool", "train/sealtools", "train/stabletoolbench", "train/toolrl"),
    ],
)
def test_stubs_of_large_catalogs_type_check(shared_data, tmp_path, name):
    catalog = Catalog.read(shared_data / name / "tools.jsonl")
    made = Stubs(catalog, ToolNames(catalog))
    _type_checks(made.text(), tmp_path)
    _type_checks(STUB_IMPORTS + made.for_model(), tmp_path, *_SHOWN)
