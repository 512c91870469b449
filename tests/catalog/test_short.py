"""A definition cut down: within its tokens, and accepting no less than the whole."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shortlist import Engine, Tool
from shortlist.catalog.short_definition import short_definition
from shortlist.demo import load_catalog
from shortlist.models import TokenCounter

COUNT = TokenCounter().count


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for level in range(levels):
        inner = {f"key_{level}_{i}": schema if i == 0 else {"type": "integer"} for i in range(40)}
        schema = {"type": "object", "properties": inner, "additionalProperties": False}
    return schema


SCHEMAS: dict[str, dict[str, Any]] = {
    "many properties": {
        "type": "object",
        "properties": {f"parameter_{i}": {"type": "string"} for i in range(6_000)},
        "required": ["parameter_5999"],
        "additionalProperties": False,
    },
    "long prose": {
        "type": "object",
        "properties": {f"p{i}": {"type": "string", "description": "字" * 400} for i in range(200)},
    },
    "long enums": {
        "type": "object",
        "properties": {"p": {"enum": [f"value {i}" for i in range(12_000)]}},
    },
    "one long word": {"type": "object", "properties": {"x" * 200_000: {"const": "y" * 50_000}}},
    "long types": {"type": "object", "properties": {"a": {"type": ["z" * 100] * 2_000}}},
    "alternatives": {
        "oneOf": [
            {"properties": {f"a{i}": {"minimum": i}}, "required": [f"a{i}"]} for i in range(3_000)
        ]
    },
    "deep": _nested(30),
    "shared": {
        "type": "object",
        "properties": {f"p{i}": {"$ref": f"#/$defs/d{i}"} for i in range(300)},
        "$defs": {
            f"d{i}": {
                "type": "object",
                "properties": {f"q{j}": {"type": "string"} for j in range(20)},
            }
            for i in range(300)
        },
    },
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_promoted_verdict_is_bounded(kind: str) -> None:
    tool = Tool("big", "evil", "many words " * 1_400, SCHEMAS[kind])
    others = [Tool(f"play_{i}", "music", f"song {i}") for i in range(12)]
    session = Engine.from_tools([tool, *others], tiers=["lexical"]).session()
    session.turn("play a song")
    start = process_time()
    verdict = session.check("evil/big", {})
    text = verdict.text
    assert process_time() - start < 1.5
    assert verdict.status == "promoted"
    assert COUNT(text) <= 4_000
    told = json.loads(text)
    assert told["shortened"] is True
    assert "left out" in told["message"]
    assert told["input_schema"]["type"] == "object"
    Draft202012Validator.check_schema(told["input_schema"])
    assert told == verdict.to_dict()


def test_required_parameters_are_shown_first() -> None:
    tool = Tool("big", "evil", "d", SCHEMAS["many properties"])
    short = short_definition(tool, 3_500, COUNT)
    assert "parameter_5999" in short.input_schema["properties"]
    assert short.input_schema["required"] == ["parameter_5999"]
    assert "additionalProperties" not in short.input_schema


def test_a_usual_definition_is_shown_whole() -> None:
    for tool in load_catalog():
        short = short_definition(tool, 3_500, COUNT)
        assert short == (tool.description, tool.input_schema, False)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (SCHEMAS["many properties"], {f"parameter_{i}": "x" for i in range(6_000)}),
        (SCHEMAS["alternatives"], {"a2999": 5_000, "a0": -1}),
        (SCHEMAS["long enums"], {"p": "value 11999"}),
        (SCHEMAS["shared"], {"p299": {"q3": "x"}}),
    ],
)
@pytest.mark.parametrize("limit", [50, 500, 3_500])
def test_a_cut_schema_accepts_what_the_whole_one_accepts(
    schema: dict[str, Any], arguments: dict[str, Any], limit: int
) -> None:
    assert Draft202012Validator(schema).is_valid(arguments)
    short = short_definition(Tool("big", "evil", "d", schema), limit, COUNT)
    assert short.shortened
    assert Draft202012Validator(short.input_schema).is_valid(arguments)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"k" * 50_000: {}}, "additionalProperties": False}, {"k" * 5_000: 1}),
        ({"properties": {"a": {"type": "t" * 50_000}}}, {"a": 1}),
        ({"required": ["r" * 100_000]}, {}),
        ({"properties": {"a": {"enum": ["e" * 100_000]}}}, {"a": 1}),
        (
            {
                "properties": {f"parameter_{i}": {} for i in range(9_000)},
                "additionalProperties": False,
            },
            {"parameter_": 1},
        ),
    ],
)
def test_what_is_told_of_wrong_arguments_is_bounded(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    view = Engine.from_tools([Tool("big", "evil", "d", schema)], tiers=["lexical"]).view()
    start = process_time()
    verdict = view.check("evil/big", arguments)
    assert process_time() - start < 0.5
    assert COUNT(verdict.text) <= 4_000
