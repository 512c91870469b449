"""Explanations: nothing is absent without a reason that can be checked."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine, Tool
from shortlist.errors import RequestError, UnknownToolError

from .fakes import make_tools

QUERY = "write an issue on the board"


def test_every_tool_of_every_answer_is_explained_as_it_is(engine: Engine, tier: str) -> None:
    answer = engine.search(QUERY, tier=tier, k=5)
    full = engine.search(QUERY, tier=tier, k=5)
    for hit in full:
        found = engine.view().explain(QUERY, hit.id, tier=tier, k=5)
        assert (found.rank, found.offered, found.tier, found.k) == (hit.rank, True, tier, 5)
        assert found.reason == f"offered: {hit.rank} of 5"
        for stage, place in hit.stages.items():
            assert found.stages[stage] == place
    for tool in engine.catalog:
        found = engine.view().explain(QUERY, tool.id, tier=tier, k=5)
        assert found.offered == (tool.id in answer.ids)
        assert found.reason


def test_out_ranked(engine: Engine) -> None:
    last = engine.search(QUERY, tier="embed", k=100).ids[-1]
    found = engine.view().explain(QUERY, last, tier="embed", k=5)
    assert (found.rank, found.offered) == (100, False)
    assert found.reason == "out-ranked: 100, and the answer holds 5"


def test_not_admitted(engine: Engine, tier: str) -> None:
    best, second = engine.search(QUERY, tier=tier, k=2).ids
    found = engine.view(allowed=[second]).explain(QUERY, best, tier=tier)
    assert (found.rank, found.offered) == (None, False)
    assert "denied: " in found.reason
    assert "denied: " in engine.view(allowed=[second]).explain(best, best, tier=tier).reason


def test_no_term_of_the_request(engine: Engine) -> None:
    found = engine.view().explain("archive", "github/create_issue", tier="lexical")
    assert (found.rank, found.offered, found.stages) == (None, False, {"lexical": None})
    assert found.reason == ("no stage proposed it: lexical finds no term of the request in it")


def test_beyond_the_depth_of_every_stage(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(tiers={"shallow": {"retrievers": ["lexical", "dense"], "depth": 3}})
    full = engine.search("issue", tier="embed", k=100).ids
    found = engine.view().explain("issue", full[-1], tier="shallow", k=3)
    assert (found.rank, found.offered) == (None, False)
    dense = found.stages["dense"]
    assert dense is not None
    assert dense.rank == 100
    assert "dense places it 100 of 100" in found.reason


def test_a_place_among_all_tools_where_the_tier_looked_less_deep(engine: Engine) -> None:
    allowed = [tool.id for tool in engine.catalog]
    for allowed_ in (None, allowed):
        for tool_id in allowed[:20]:
            found = engine.view(allowed=allowed_).explain(
                "create issue", tool_id, tier="lexical", k=1
            )
            full = engine.search("create issue", tier="lexical", k=100).ids
            place = found.stages["lexical"]
            assert (place.rank if place else None) == (
                full.index(tool_id) + 1 if tool_id in full else None
            )


def test_its_name(engine: Engine, tier: str) -> None:
    found = engine.view().explain("create_issue", "github/create_issue", tier=tier)
    assert (found.rank, found.offered) == (1, True)
    assert found.reason == "the request is exactly its name or id"


def test_a_namesake_beyond_the_answer_is_out_ranked(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine([Tool("copy", server, "Copy") for server in "abc"])
    answer = engine.search("copy", k=2)
    [left] = {"a/copy", "b/copy", "c/copy"} - set(answer.ids)
    found = engine.view().explain("copy", left, k=2)
    assert (found.rank, found.offered) == (3, False)
    assert "out-ranked" in found.reason


def test_an_unknown_tool_names_the_nearest(engine: Engine) -> None:
    with pytest.raises(UnknownToolError, match="github/create_issue"):
        engine.view().explain(QUERY, "github/creat_issue")


def test_an_unknown_tier(engine: Engine) -> None:
    with pytest.raises(RequestError, match="use one of"):
        engine.view().explain(QUERY, "github/create_issue", tier="nope")


def test_it_is_json(engine: Engine, tier: str) -> None:
    tools = make_tools()
    for tool in tools[:5]:
        row = json.loads(json.dumps(engine.view().explain("archive", tool.id, tier=tier).to_dict()))
        assert row["tool"] == tool.id
        assert {"query", "tool", "tier", "k", "rank", "offered", "stages", "reason"} <= set(row)
