"""Rows from one catalog version to the next: they stay, and are filled without gaps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shortlist import Catalog, Tool
from shortlist.retrieval import Ranking
from shortlist.retrieval.change import NEW, Change
from shortlist.retrieval.names import Names
from shortlist.retrieval.query import by_id

#: Number of a tool to the edition of its definition.
CATALOGS = st.dictionaries(st.integers(0, 25), st.integers(0, 2), max_size=20)


def tools_of(editions: dict[int, int]) -> list[Tool]:
    # Names of different letter case, so that they meet where it does not count.
    return [
        Tool(("RUN", "run", "walk")[number % 3], f"s{number}", f"Edition {edition}")
        for number, edition in editions.items()
    ]


@given(steps=st.lists(CATALOGS, min_size=2, max_size=6))
def test_rows_follow_any_series_of_catalogs(steps: list[dict[int, int]]) -> None:
    tools = tuple(sorted(tools_of(steps[0]), key=lambda tool: tool.id))
    names = Names.of(tools)
    for step in steps[1:]:
        catalog = Catalog(tools_of(step))
        change = Change.between(tools, names.rows, catalog)
        assert sorted(tool.id for tool in change.tools) == sorted(tool.id for tool in catalog)
        assert set(change.tools) == set(catalog)
        touched = set(change.rows.tolist())
        for row, tool in enumerate(change.tools):
            if row not in touched:
                assert tools[row] == tool
        for row, source in zip(change.rows.tolist(), change.sources.tolist(), strict=True):
            if source != NEW:
                assert tools[source] == change.tools[row]
        before, after = set(tools), set(catalog)
        new, lost = len(after - before), len({t.id for t in before} - {t.id for t in after})
        assert len(touched) <= new + lost
        names = names.patched(change)
        tools = change.tools
        assert names.rows == {tool.id: row for row, tool in enumerate(tools)}
        fresh = Names.of(tools)
        for held, expected in ((names.exact, fresh.exact), (names.folded, fresh.folded)):
            assert {name: sorted(rows) for name, rows in held.items()} == expected
        everything = names.by_id(np.ones(len(tools), np.bool_))
        assert [tools[row].id for row in everything] == sorted(names.rows)


def test_a_change_leaves_the_names_before_as_they_were() -> None:
    tools = tuple(tools_of(dict.fromkeys(range(6), 0)))
    names = Names.of(tools)
    held = {name: list(rows) for name, rows in names.exact.items()}
    names.patched(Change.between(tools, names.rows, Catalog(tools[2:])))
    assert names.exact == held


def test_only_neighbours_of_equal_score_change_places() -> None:
    tools = [Tool(name) for name in "dcbae"]
    ranking = Ranking(
        np.array([0, 1, 4, 2, 3]), np.array([2.0, 2.0, 1.0, 3.0, 3.0], np.float32), rest=0.5
    )
    ordered = by_id(ranking, tools)
    assert ordered.rows.tolist() == [1, 0, 4, 3, 2]
    assert ordered.scores.tolist() == ranking.scores.tolist()
    assert ordered.rest == 0.5
    assert by_id(Ranking.empty(), tools).rows.tolist() == []
