from __future__ import annotations

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.catalog.short_definition import without_prose
from shortlist.loaders.levels import Level, compact_signature, describe, signature


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (
            {"properties": {"labels": {"type": "array", "items": {"type": "string"}},
                            "repo": {"type": "string"}, "state": {"enum": ["open", "closed"]}},
             "required": ["repo"]},
            "(repo: str, labels?: [str], state?: open|closed)",
        ),
        (None, "()"),
        ({"properties": {"n": {"type": ["integer", "null"]}, "f": {"type": "number"}}},
         "(f?: float, n?: int|null)"),
        ({"properties": {"at": {"$ref": "#/$defs/point"}}, "required": ["at"],
          "$defs": {"point": {"properties": {"x": {"type": "number"}}, "required": ["x"]}}},
         "(at: {x: float})"),
        ({"properties": {"self": {"$ref": "#"}}}, "(self?: {self?: object})"),
        ({"properties": {"v": {"anyOf": [{"type": "string"}, {"type": "boolean"}, {}]}}},
         "(v?: str|bool|any)"),
        ({"properties": {"k": {"const": "a\nb"}, "x": True, "y": {"type": 7}}},
         "(k?: a b, x?: any, y?: any)"),
        ({"properties": {"e": {"enum": list(range(20))}}},
         "(e?: 0|1|2|3|4|5|6|7|...)"),
        ({"properties": [], "required": 1}, "()"),
    ],
)  # fmt: skip
def test_arguments_on_one_line(schema, written):
    assert signature(Tool("t", "s", "d", schema)) == written


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (
            {"properties": {"state": {"enum": ["open", "closed"]},
                            "labels": {"type": "array", "items": {"type": "string"}},
                            "repo": {"type": "string"}, "page": {"type": "integer"}},
             "required": ["repo", "labels"]},
            "(repo, labels: [str]; page state)",
        ),
        (None, "()"),
        ({"properties": {"a": {"type": "integer"}, "b\nc": {}}}, "(a b c)"),
        ({"properties": {f"p{n:02}": {} for n in range(40)}},
         f"({' '.join(f'p{n:02}' for n in range(32))} ...)"),
    ],
)  # fmt: skip
def test_arguments_as_a_line_of_the_pool_has_them(schema, written):
    assert compact_signature(Tool("t", "s", "d", schema)) == written


def test_levels_say_more_and_more(demo, counter):
    for tool in list(demo)[::10]:
        lines = [describe(tool, level, "Do it") for level in Level]
        assert lines[:4] == [
            tool.id,
            f"{tool.id}: Do it",
            f"{tool.id}{compact_signature(tool)}",
            f"{tool.id}{signature(tool)}: Do it",
        ]
        assert json.loads(lines[4]) == {
            "name": tool.id, "description": tool.description, "input_schema": tool.input_schema,
        }  # fmt: skip
        counts = counter.count_many(lines)
        assert counts[2] <= counts[3] <= counts[4]


def test_a_schema_without_prose_accepts_the_same(demo):
    accepted = 0
    for tool in demo:
        bare = without_prose(tool.input_schema)
        assert len(json.dumps(bare)) < len(json.dumps(tool.input_schema))
        for value in ({}, {"owner": "a", "repo": "b"}, {"path": "x"}, {"path": 1}, {"zz": []}):
            before, after = (
                jsonschema.Draft202012Validator(schema).is_valid(value)
                for schema in (tool.input_schema, bare)
            )
            assert before == after
            accepted += after
    assert accepted


def test_parameters_that_are_called_like_prose_stay():
    schema = {
        "properties": {"title": {"type": "string", "description": "x", "title": "T"}},
        "required": ["title"],
        "examples": [{"title": "a"}],
        "$defs": {"description": {"enum": ["title"], "default": {"description": "kept"}}},
    }
    assert without_prose(schema) == {
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "$defs": {"description": {"enum": ["title"], "default": {"description": "kept"}}},
    }


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_the_tool_each_level_is_one_line(tools, data):
    tool = data.draw(tools)
    for level in Level:
        assert "\n" not in describe(tool, level, "Do it")
