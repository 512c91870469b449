"""The committed queries: their tools exist, and how they are counted."""

from __future__ import annotations

from pathlib import Path

from shortlist import Catalog, Engine, Tool
from shortlist.lab.query_sets import (
    SETS,
    Outcome,
    Query,
    catalog_of,
    commands_for,
    outcomes_of,
    queries_of,
    query_table,
)


def test_every_query_has_tools_of_the_catalog(shared_data: Path) -> None:
    catalog = catalog_of(shared_data / "eval")
    for half in ("choose", "kept"):
        queries = list(queries_of(half))
        assert {query.set_name for query in queries} == set(SETS)
        assert all(tool_id in catalog for query in queries for tool_id in query.right_ids)


def test_outcomes_are_counted_by_set_and_style() -> None:
    tools = [Tool(f"{verb}_{noun}", "s") for verb in ("get", "delete") for noun in ("a", "mail")]
    engine = Engine.from_tools(tools, tiers=["lexical"])
    [command] = [one for one in commands_for(Catalog(tools)) if "s/get_mail" in one.right_ids]
    assert command.text == "get a mail"
    queries = [
        command,
        Query("delete mail", ("s/get_mail", "s/delete_mail"), "x", "two", needs_all=True),
        Query("delete mail", ("s/get_mail",), "x", "one", destructive="s/delete_mail"),
    ]
    outcomes = outcomes_of(engine, "lexical", queries)
    assert outcomes[0] == Outcome(1.0, 1.0, False, False)
    assert [outcome.destroys for outcome in outcomes] == [False, False, True]
    table = query_table(queries, {"lexical": outcomes})
    assert table.rows[1] == ("x", "all", "lexical", 2, "50.0", "100.0", "0.0")
    assert [row[1] for row in table.rows] == ["all", "all", "two", "one"]
