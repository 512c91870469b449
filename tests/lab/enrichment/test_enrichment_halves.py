"""Half of the servers with example queries, against none."""

from __future__ import annotations

from shortlist import Tool
from shortlist.enrichment import ExampleQueryRow
from shortlist.lab.enrichment.enrichment_gain import Asked
from shortlist.lab.enrichment.enrichment_halves import halves

TOOLS = [
    Tool("bmi", "health", "Quotient of mass and squared height"),
    Tool("convert", "units", "Converts height or weight between systems of units"),
]
ASKED = [
    Asked("am I overweight?", ("health/bmi",)),
    Asked("convert my height, as I am curious", ("units/convert",)),
]


def test_the_two_halves_are_counted_apart() -> None:
    rows = [
        ExampleQueryRow(tool="health/bmi", queries=("am I overweight?",)),
        ExampleQueryRow(
            tool="units/convert", queries=("convert my height, as I am curious", "overweight")
        ),
    ]
    table, result = halves(TOOLS, ASKED, rows, draws=4)
    assert (result["draws"], len(result["tiers"]["lexical"])) == (4, 4)
    assert len(table.rows) == len(result["tiers"])
    # Without example queries no word of the first query is known; with them it is found.
    assert any(draw[2:] == [100.0, 100.0] for draw in result["tiers"]["lexical"])


def test_without_rows_nothing_changes() -> None:
    _, result = halves(TOOLS, ASKED, [], draws=2)
    assert all(draw == [0, 0, 0, 0] for tier in result["tiers"].values() for draw in tier)
