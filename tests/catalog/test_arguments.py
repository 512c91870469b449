from __future__ import annotations

from functools import reduce
from time import thread_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import schema_check
from shortlist.catalog.arguments import (
    MAX_PROBLEMS,
    argument_problems,
    arguments_as_meant,
)

_WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "maximum": 10},
        "unit": {"enum": ["c", "f"]},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "at": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["lat"]}]},
        "exact": {"const": True},
    },
    "required": ["city"],
    "additionalProperties": False,
}
_DOUBLING = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(40)} | {
    "d40": {"type": "object"}
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
_KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "required",
        "enum",
        "anyOf",
        "$ref",
        "pattern",
        "minimum",
        "not",
    ]
)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"city": "Oslo", "days": 3, "exact": True}, []),
        ({"days": "3"}, ['/days: expected integer, got "3"', "/city: expected string (required)"]),
        ({"city": "Oslo", "days": 99}, ["/days: expected at most 10, got 99"]),
        ({"city": "Oslo", "unit": "k"}, ['/unit: expected one of "c", "f", got "k"']),
        ({"city": "Oslo", "tags": ["a", 3]}, ["/tags/1: expected string, got 3"]),
        ({"city": "Oslo", "tags": ["a", "a"]}, ["/tags: expected no item twice"]),
        ({"city": "Oslo", "code": "no"}, ['/code: expected a text that matches "^[A-Z]{2}$"']),
        ({"city": "Oslo", "exact": 1}, ["/exact: expected true, got 1"]),
        ({"city": "Oslo", "ctiy": "x"}, ["/ctiy: unknown; did you mean city?"]),
        ({"city": "Oslo", "at": {}}, ["/at"]),
        ([], ["arguments: expected an object, got []"]),
        ("Oslo", ['arguments: expected an object, got "Oslo"']),
    ],
)
def test_problems_say_where_what_was_expected_and_what_came(
    arguments: Any, told: list[str]
) -> None:
    found = [str(problem) for problem in argument_problems(_WEATHER, arguments)]
    assert len(found) == len(told)
    assert all(part in one for part, one in zip(told, found, strict=True))


def test_few_problems_at_once_and_short_ones() -> None:
    schema = {"properties": {str(at): {"type": "integer"} for at in range(50)}}
    found = argument_problems(schema, {str(at): "x" * 1_000 for at in range(50)})
    assert len(found) == MAX_PROBLEMS
    assert all(len(str(problem)) < 200 for problem in found)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"$ref": "#"}, {"a": 1}),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, {"a": 1}),
        ({"$ref": "file:///etc/passwd"}, {"a": 1}),
        ({"$defs": _DOUBLING, "$ref": "#/$defs/d0"}, {"a": 1}),
        (
            {"$defs": _DOUBLING, "$ref": "#/$defs/d0", "unevaluatedProperties": False},
            {"a": 1},
        ),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 5_000 + "b"}),
        ({"properties": {"a": {"pattern": "(a|a)*b"}}}, {"a": "a" * 199}),
        ({"properties": {"a": {"pattern": "^" + r"\\*" * 5 + "x$"}}}, {"a": "\\" * 199}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"x": at} for at in range(6_000)]}),
        ({"properties": {"a": {"allOf": [{"items": {}}] * 9_000}}}, {"a": list(range(6_000))}),
        ({"properties": {"a": {"enum": [list(range(900))] * 50}}}, {"a": list(range(900))}),
        ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 60 + "b": 1}),
        ({"type": "objekt"}, {"a": 1}),
        ({"type": 5, "properties": 5, "required": "x"}, {"a": 1}),
        ({"$schema": "http://nowhere/", "type": "object"}, {"a": 1}),
    ],
)
def test_a_hostile_or_wrong_schema_neither_hangs_nor_raises_nor_blames(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    start = thread_time()
    assert argument_problems(schema, arguments) == ()
    assert thread_time() - start < 5


def test_a_pattern_with_a_few_repetitions_is_tried_in_bounded_time() -> None:
    start = thread_time()
    found = argument_problems(
        {"properties": {"a": {"pattern": "^a*a*a*$"}}}, {"a": "a" * 199 + "b"}
    )
    assert len(found) == 1
    assert thread_time() - start < 2


def test_arguments_without_end_are_not_read() -> None:
    deep = reduce(lambda inner, _: [inner], range(900), [])
    assert argument_problems({}, {"a": deep})[0].got == "more"
    assert argument_problems({}, {"a": [0] * 30_000})[0].got == "more"


def test_an_old_draft_is_read_as_such() -> None:
    draft = "http://json-schema.org/draft-04/schema#"
    schema = {"$schema": draft, "properties": {"a": {"maximum": 3, "exclusiveMaximum": True}}}
    assert len(argument_problems(schema, {"a": 3})) == 1
    assert argument_problems(schema, {"a": 2}) == ()


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(_KEYWORDS, _JSON), st.dictionaries(st.text(), _JSON))
def test_any_schema_and_any_arguments_give_an_answer(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    assert len(argument_problems(schema, arguments)) <= MAX_PROBLEMS


def _numbered(count: int, schema: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {f"p{i}": schema for i in range(count)}}


_WIDE = {f"p{i}": "a" * 199 + "b" for i in range(6_000)}
HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "6,000 patterns": (
        {"properties": {f"p{i}": {"pattern": f"^[a-z{i}]*[a-f{i}]*"} for i in range(6_000)}},
        _WIDE,
    ),
    "slow patterns": (
        {"properties": {f"p{i}": {"pattern": f"^a*a*a*|{i}"} for i in range(2_000)}},
        _WIDE,
    ),
    "pattern of property names": (
        {"patternProperties": {"(a+)+$": {}}, "additionalProperties": False},
        {"a" * 40 + "!": 1},
    ),
    "branches without keywords": ({"oneOf": [True] * 40_000}, {}),
    "branches that are false": ({"anyOf": [False] * 40_000}, {}),
    "choices that are objects": (
        {"properties": {"a": {"enum": [{"x": i} for i in range(12_000)]}}},
        {"a": {str(i): i for i in range(19_000)}},
    ),
    "names to be near to": (
        {"properties": {f"{'x' * 30}{i}": {} for i in range(5_000)}, "additionalProperties": False},
        {"x" * 35: 1},
    ),
    "anchors": (
        {
            "$defs": {f"d{i}": {"$anchor": f"a{i}"} for i in range(6_000)},
            "allOf": [{"$ref": f"#a{i}"} for i in range(2_000)],
        },
        {},
    ),
    "ids": (
        {
            "$defs": {f"d{i}": {"$id": f"http://x/{i}"} for i in range(3_000)},
            "allOf": [{"$ref": f"http://x/{i}"} for i in range(3_000)],
        },
        {},
    ),
    "errors about a long text": ({"anyOf": [{"type": "integer"}] * 9_000}, {"a": "x" * 2_000_000}),
    "references that double": (
        {
            "$defs": {
                f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2, "type": "object"}
                for i in range(60)
            },
            "$ref": "#/$defs/d0",
        },
        {},
    ),
    "contained": (
        {"properties": {"a": {"allOf": [{"contains": {"const": i}} for i in range(5_000)]}}},
        {"a": list(range(-19_000, 0))},
    ),
    "no item twice": (
        {"properties": {"a": {"allOf": [{"uniqueItems": True}] * 5_000}}},
        {"a": [{"k": list(range(10))} for _ in range(1_500)]},
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_schema_makes_a_check_slow(kind: str) -> None:
    """Some 50 ms of this thread, with room for a slow machine; the best of three on a busy one."""
    schema, arguments = HOSTILE[kind]
    argument_problems(schema, {})
    times = []
    for _ in range(3):
        start = thread_time()
        argument_problems(schema, arguments)
        times.append(thread_time() - start)
    assert min(times) < 0.25


def test_a_large_usual_call_is_checked_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_check, "MAX_SECONDS", 10.0)  # steps decide, not a busy machine
    row = {"type": "object", "properties": {f"c{i}": {"type": "integer"} for i in range(10)}}
    schema = {"properties": {"rows": {"type": "array", "items": row}}}
    rows: list[dict[str, Any]] = [{f"c{i}": i for i in range(10)} for _ in range(300)]
    assert argument_problems(schema, {"rows": rows}) == ()
    rows[-1]["c9"] = "nine"
    (problem,) = argument_problems(schema, {"rows": rows})
    assert problem.path == "/rows/299/c9"


def test_properties_that_are_not_declared_are_checked() -> None:
    schema = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    (problem,) = argument_problems(schema, {"a": "x", "b": 1, "c": "x"})
    assert (problem.path, problem.expected) == ("/c", "integer")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"city": "Oslo", "days": None, "unit": None, "tags": None, "at": None}, {"city": "Oslo"}),
        ({"city": "Oslo", "code": None, "exact": None}, {"city": "Oslo"}),
        ({"city": "Oslo", "tags": ["a"]}, {"city": "Oslo", "tags": ["a"]}),
    ],
)
def test_a_null_that_the_schema_refuses_is_absent(arguments: Any, expected: Any) -> None:
    assert arguments_as_meant(_WEATHER, arguments) == expected


def test_a_null_that_the_schema_allows_stays() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}
    schema = {
        "properties": {
            "to": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "from": {"$ref": "#/$defs/name"},
            "inner": inner,
            "list": {"type": "array", "items": {"type": "integer"}},
        },
        "$defs": {"name": {"type": "string"}},
    }
    given: dict[str, Any] = {
        "to": None,
        "from": None,
        "inner": {"a": None, "b": None},
        "list": [1, None],
    }
    kept = {"to": None, "inner": {"b": None}, "list": [1, None]}
    assert arguments_as_meant(schema, given) == kept
    assert given["inner"] == {"a": None, "b": None}


def test_a_null_for_a_required_argument_is_a_missing_one() -> None:
    arguments = arguments_as_meant(_WEATHER, {"city": None})
    (problem,) = argument_problems(_WEATHER, arguments)
    assert str(problem) == "/city: expected string (required), got nothing"


def test_alternatives_without_a_valid_type_are_a_problem_and_no_error():
    schema = {"type": "object", "properties": {"a": {"anyOf": [False], "type": None}}}
    assert argument_problems(schema, {"a": 1})


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "2", 2),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "2", 2),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": ["boolean", "null"]}, "true", True),
        ({"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        # More than one reading, or none.
        ({"type": ["integer", "string"]}, "2", "2"),
        ({"type": "integer"}, "two", "two"),
        ({"type": "integer"}, "2.5", "2.5"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "array"}, "a", "a"),
        ({"type": "string"}, "2", "2"),
        ({"enum": [1, 2]}, "2", "2"),
    ],
)
def test_a_text_is_what_the_schema_allows_if_that_is_one_reading(
    schema: dict[str, Any], text: str, value: Any
) -> None:
    given = {"inner": [{"value": text}]}
    inner = {"type": "object", "properties": {"value": schema}}
    whole = {"properties": {"inner": {"type": "array", "items": inner}}}
    assert arguments_as_meant(whole, given) == {"inner": [{"value": value}]}
    assert given == {"inner": [{"value": text}]}


def test_an_unknown_argument_is_named_beside_the_missing_one() -> None:
    """Seen in use: a call with `sql` in place of `query` read of a missing `query` alone."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
    for closed in ({}, {"additionalProperties": False}):
        found = set(map(str, argument_problems(schema | closed, {"sql": "SELECT 1"})))
        assert found == {
            "/query: expected string (required), got nothing",
            "/sql: unknown; did you mean query?",
        }
    both = [str(found) for found in argument_problems(schema, {"sql": "SELECT 1", "most": 1})]
    assert both[1] == "/sql: unknown; expected one of query, limit"
    for opened in ({"additionalProperties": True}, {"allOf": [{"properties": {"sql": {}}}]}):
        (problem,) = argument_problems(schema | opened, {"sql": "SELECT 1"})
        assert problem.path == "/query"
