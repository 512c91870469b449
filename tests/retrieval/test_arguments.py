from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.retrieval.arguments import Slots, Values


def slots(properties: dict[str, Any] | None, *required: str) -> Slots:
    if properties is None:
        return Slots.of(Tool("tool"))
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Slots.of(Tool("tool", input_schema=schema))


NUMBER, TEXT, LIST = {"type": "number"}, {"type": "string"}, {"type": "array"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what is 12.5% of 1,300 in km", {"number": 2}),
        ("between 2024-01-05 and March 3rd", {"date": 2}),
        ("mean of 3, 5, and 13", {"list": 1}),
        ("sort [4, 1, 7]", {"list": 1}),
        ("mail ann.lee@example.org about https://example.org/a?b=1", {"mail": 1, "page": 1}),
        ("open ~/notes/today.md and report.pdf", {"file": 2}),
        ("version v2 of utf8 on web3", {}),
        ("the weather in Lyon", {}),
        ("margin 20, market 50, decode 64", {"number": 3}),
        ("on 3rd of May, or 12 june, or may 7", {"date": 3}),
        ("transfer 1,300,000 and 4,500", {"number": 2}),
        ("5km, 20kg at 3pm, $40, -7°C, 1920x1080", {"number": 7}),
        ("points (3,4) and 30-40", {"number": 4}),
        ("ping 192.168.1.10", {}),
        ("the 5th of them", {}),
        ("and/or TCP/IP in km/h", {}),
    ],
)
def test_values_are_told_by_their_form(text: str, expected: dict[str, int]) -> None:
    found = Values.of(text)
    assert {kind: count for kind, count in found.counts.items() if count} == expected
    assert found.total == sum(expected.values())


@pytest.mark.parametrize(
    ("properties", "left"),
    [
        ({}, 1.0),
        (None, 1.0),
        ({"width": NUMBER}, 0.5),
        ({"width": NUMBER, "height": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, 0.0),
        ({"width": NUMBER, "colour": TEXT}, 0.5),
        ({"width": NUMBER, "order_id": TEXT}, 0.0),
        ({"sides": LIST}, 0.0),
        ({"anything": {}}, 0.0),
        ({"deep": {"type": "boolean"}}, 1.0),
        ({"template": TEXT}, 1.0),
    ],
)
def test_left_over_is_what_no_parameter_takes(
    properties: dict[str, Any] | None, left: float
) -> None:
    assert slots(properties).left_over(Values.of("a box of 30 by 40")) == left


def test_parameters_that_are_not_listed_take_anything() -> None:
    for schema in ({"$ref": "#/$defs/box"}, {"additionalProperties": {}}, {"allOf": [{}]}):
        assert Slots.of(Tool("tool", input_schema=schema)).left_over(Values.of("30 by 40")) == 0.0


def test_addresses_and_files_go_where_the_name_says() -> None:
    request = Values.of("fetch https://example.org into page.html")
    assert slots({"url": TEXT, "target": TEXT}).left_over(request) == 0.0
    assert slots({"colour": TEXT}).left_over(request) == 1.0
    assert slots({"photo": TEXT, "total": TEXT}).left_over(Values.of("to a.b@c.de")) == 1.0
    assert slots({"url": TEXT}).left_over(Values.of("what is new")) == 0.0


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("how far is it", 1.0),
        ("from 48.8", 0.75),
        ("from 48.8 2.3 to 50.1 8.7", 0.0),
        ("of [1, 2, 3, 4]", 0.0),
        ("since 2024-01-01", 0.75),
    ],
)
def test_missing_is_what_the_tool_requires(text: str, missing: float) -> None:
    names = ("lat1", "lon1", "lat2", "lon2")
    tool = slots({**dict.fromkeys(names, NUMBER), "digits": NUMBER}, *names)
    assert tool.missing(Values.of(text)) == missing
    assert slots({"place": TEXT}, "place").missing(Values.of(text)) == 0.0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["properties", "required", "type", "anyOf", "a_id", "url"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.text(max_size=80),
)
def test_any_schema_and_any_request_give_shares(schema: Any, text: str) -> None:
    tool = Tool("tool", input_schema={"type": "object", "properties": schema})
    for one in (tool, Tool("tool", input_schema=schema if isinstance(schema, dict) else None)):
        found, values = Slots.of(one), Values.of(text)
        assert 0 <= found.left_over(values) <= 1
        assert 0 <= found.missing(values) <= 1


@pytest.mark.parametrize(
    "text",
    [
        *(unit * 50_000 for unit in ("a", "1", "1,", "1, ", "a@", "a.", "[", "/", "jan ", "1.")),
        *("-" * 50_000, "1" * 2000 + "." + "1" * 2000, "1," * 1999 + "x", "1,111" * 800),
    ],
)
def test_long_requests_are_read_in_no_time(text: str) -> None:
    times = []
    for _ in range(3):
        began = time.process_time()
        Values.of(text)
        times.append(time.process_time() - began)
    assert min(times) < 0.03
