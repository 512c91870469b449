"""A catalog with and without example queries, query by query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shortlist import Tool
from shortlist.enrichment import ExampleQueryMatcher, ExampleQueryRow
from shortlist.lab.enrichment.enrichment_gain import Asked, gain, read_asked, read_catalog

TOOLS = [
    Tool("bmi", "health", "Quotient of mass and squared height"),
    Tool("rank", "algebra", "Dimension of the column space of a matrix"),
    Tool("weight", "shop", "Somebody orders a weight for the gym"),
]
ASKED = [
    Asked("is somebody overweight", ("health/bmi",)),
    Asked("column space of the matrix", ("algebra/rank",)),
]


def test_the_change_is_that_of_the_queries() -> None:
    row = ExampleQueryRow(
        tool="health/bmi", queries=("is somebody overweight?", "am I overweight?")
    )
    table, result = gain(TOOLS, ASKED, ExampleQueryMatcher([row]))
    lexical = result["tiers"]["lexical"]
    assert (lexical["without"][0], lexical["with"][0]) == (50, 100)
    assert lexical["low"][0] <= 50 <= lexical["high"][0]
    assert (result["tools_with_queries"], result["queries_for_tools_with_queries"]) == (1, 1)
    assert list(table.rows[0][:3]) == ["lexical", "50.0", "100.0"]
    assert str(table.rows[0][3]).startswith("+50.0 (")


def test_without_rows_nothing_changes() -> None:
    _, result = gain(TOOLS, ASKED, ExampleQueryMatcher())
    for tier in result["tiers"].values():
        assert tier["without"] == tier["with"]


@pytest.mark.parametrize("key", ["relevant", "tool"])
def test_folders_of_dumps_and_queries_of_both_forms_are_read(tmp_path: Path, key: str) -> None:
    dump = {"tools": [{"name": "bmi", "inputSchema": {"type": "object"}}]}
    (tmp_path / "health.json").write_text(json.dumps(dump))
    tools = read_catalog([tmp_path])
    assert [tool.id for tool in tools] == ["health/bmi"]
    value = "health/bmi" if key == "tool" else ["health/bmi"]
    rows = [{"query": "a", key: value}, {"query": "b", key: "gone" if key == "tool" else ["gone"]}]
    path = tmp_path / "queries.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_asked([path], tools) == [Asked("a", ("health/bmi",))]
