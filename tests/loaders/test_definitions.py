"""Which tools get their definition, and how much of it, within a token budget."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.loaders.definitions import Definition, choose_definitions, define
from shortlist.loaders.levels import Level
from shortlist.loaders.providers import PROVIDERS


def choose(costs: list[tuple[int, int]], budget: int) -> list[tuple[int, str]]:
    """Place and level of the chosen of some tools with (signature, full) tokens."""
    tools = [Tool(f"t{place}", "s") for place in range(len(costs))]

    def definition_of(tool: Tool, level: Level) -> Definition:
        signature, full = costs[int(tool.name[1:])]
        return Definition(tool, level, full if level is Level.FULL else signature, "", None)

    chosen = choose_definitions(tools, budget, definition_of)
    return [(int(one.tool.name[1:]), one.level.label) for one in chosen]


@pytest.mark.parametrize(
    ("costs", "budget", "chosen"),
    [
        ([(80, 400)] * 3, 1_200, [(0, "full"), (1, "full"), (2, "full")]),
        ([(80, 400)] * 3, 1_199, [(0, "full"), (1, "full"), (2, "signature")]),
        ([(80, 400)] * 3, 560, [(0, "full"), (1, "signature"), (2, "signature")]),
        # What all others can be called by comes before a second one in full.
        ([(80, 400)] * 3, 879, [(0, "full"), (1, "signature"), (2, "signature")]),
        ([(80, 400)] * 3, 480, [(0, "full"), (1, "signature")]),
        ([(80, 400)] * 2, 399, [(0, "signature"), (1, "signature")]),
        # A tool that does not fit leaves its room to later ones.
        ([(10, 10), (90, 90), (30, 30)], 60, [(0, "full"), (2, "full")]),
        ([(700, 900), (50, 60)], 600, [(1, "full")]),
        # A definition that is no longer than its signature is never cut.
        ([(80, 400), (30, 20)], 420, [(0, "full"), (1, "full")]),
        ([(80, 400)], 79, []),
        ([], 600, []),
    ],
)
def test_the_first_in_full_then_signatures_then_what_is_left(costs, budget, chosen):
    assert choose(costs, budget) == chosen


@settings(max_examples=150, deadline=None)
@given(
    costs=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500)), max_size=12),
    budget=st.integers(0, 2_000),
)
def test_the_budget_is_never_exceeded_and_nothing_more_would_fit(costs, budget):
    chosen = dict(choose(costs, budget))
    used = sum(costs[place][level == "full"] for place, level in chosen.items())
    assert used <= budget
    assert list(chosen) == sorted(chosen)
    for place, (signature, full) in enumerate(costs):
        if place not in chosen:
            assert min(signature, full) > budget - used
        elif chosen[place] == "signature":
            assert full - signature > budget - used


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_definition_is_written_for_its_place(name, demo, counter):
    tool, provider = demo.get("web/read_feed"), PROVIDERS[name]
    full, short = (
        define(provider, tool, level, summary)
        for level, summary in ((Level.FULL, ""), (Level.SIGNATURE, "Read it"))
    )
    assert full.function == provider.function(
        provider.name_of(tool.id), tool.description, tool.input_schema
    )
    assert "Read it" in str(short.function)
    assert "description" not in str(short.function).split("Read it")[1]
    line = define(None, tool, Level.SIGNATURE, "Read it")
    assert (line.function, line.text[-9:]) == (None, ": Read it")
    for one in (full, short, line):
        assert one.tokens == counter.count(f"{one.text}\n")
