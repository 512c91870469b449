"""Synthetic growth: as many tools as asked, deterministic, each under its own id."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import demo
from shortlist.catalog import Catalog, Tool
from shortlist.catalog.tool_document import embedding_text
from shortlist.errors import EvaluationError
from shortlist.lab.bench.growth import grow

DEMO = tuple(demo.load_catalog())


@settings(max_examples=8, deadline=None)
@given(real=st.integers(2, len(DEMO)), count=st.integers(0, 400), seed=st.integers(0, 2**32))
def test_growth_is_deterministic_unique_and_nested(real: int, count: int, seed: int) -> None:
    tools = grow(DEMO[:real], count, seed=seed)
    assert len(tools) == count
    assert len({tool.id for tool in tools}) == count
    assert tools == grow(DEMO[:real], count, seed=seed)
    assert grow(DEMO[:real], count + 7, seed=seed)[:count] == tools
    assert tools[:real] == DEMO[:real][:count]


def test_a_catalog_keeps_every_grown_tool() -> None:
    catalog = Catalog(grow(DEMO, 1_000))
    assert len(catalog) == 1_000
    assert not catalog.collisions
    assert len({embedding_text(tool) for tool in catalog}) == 1_000


def test_another_seed_gives_other_tools() -> None:
    assert grow(DEMO, 130, seed=0)[:120] == grow(DEMO, 130, seed=1)[:120]
    assert grow(DEMO, 130, seed=0) != grow(DEMO, 130, seed=1)


def test_a_grown_tool_joins_halves_of_two() -> None:
    first = Tool(
        "create_issue",
        "a",
        "Open an issue. It must not exist.",
        {
            "type": "object",
            "properties": {"body": {"type": "string"}, "title": {"type": "string"}},
            "required": ["title", "body"],
        },
    )
    second = Tool(
        "listPages",
        "b",
        "Pages of a space. Newest first.",
        {
            "type": "object",
            "properties": {"limit": {"type": "integer"}, "space": {"$ref": "#/$defs/id"}},
            "required": ["space"],
            "$defs": {"id": {"type": "string"}},
        },
    )
    joined = {
        tool.name.rpartition("_")[0]: tool for tool in grow([first, second], 40)[2:] if tool.name
    }
    tool = joined["create_pages"]
    assert tool.description == "Open an issue. Newest first."
    assert [parameter.name for parameter in tool.parameters] == ["body", "space"]
    assert tool.input_schema["required"] == ["body", "space"]
    assert tool.input_schema["$defs"] == {"id": {"type": "string"}}


def test_lengths_stay_those_of_real_tools() -> None:
    def mean(tools: tuple[Tool, ...]) -> float:
        return sum(len(embedding_text(tool)) for tool in tools) / len(tools)

    assert mean(grow(DEMO, 1_000)[120:]) == pytest.approx(mean(DEMO), rel=0.15)


def test_one_tool_cannot_be_recombined() -> None:
    with pytest.raises(EvaluationError, match="at least 2"):
        grow(DEMO[:1], 2)
