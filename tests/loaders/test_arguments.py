from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import demo
from shortlist.catalog import Catalog, Tool
from shortlist.errors import RequestError
from shortlist.loaders import Detail
from shortlist.loaders.levels import compact_signature
from shortlist.loaders.pool import PoolLevel, PoolWriter
from shortlist.loaders.prompt import Prompt


@pytest.fixture(scope="module")
def catalog():
    return demo.load_catalog()


def test_required_arguments_have_types_and_the_others_names():
    schema = {
        "type": "object",
        "properties": {
            "state": {"enum": ["open", "closed"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "repo": {"type": "string"},
            "page": {"type": "integer"},
        },
        "required": ["repo", "labels"],
    }
    assert (
        compact_signature(Tool("list", "s", input_schema=schema))
        == "(repo, labels: [str]; page state)"
    )
    assert compact_signature(Tool("ping", "s")) == "()"
    free = {"type": "object", "properties": {"a": {"type": "integer"}, "b\nc": {}}}
    assert compact_signature(Tool("any", "s", input_schema=free)) == "(a b c)"


def test_a_pool_of_arguments_lets_all_its_tools_be_called(catalog):
    pool = PoolWriter(budget=3_000, top=PoolLevel.ARGUMENTS).write(catalog)
    assert set(pool.levels.values()) == {PoolLevel.ARGUMENTS}
    assert pool.callable_ids == {tool.id for tool in catalog}
    for tool in catalog:
        assert f"\n {tool.name}{compact_signature(tool)}\n" in pool.text


def test_without_room_some_servers_say_names_only(catalog):
    pool = PoolWriter(budget=2_000, top=PoolLevel.ARGUMENTS).write(catalog)
    assert {PoolLevel.NAMES, PoolLevel.ARGUMENTS} == set(pool.levels.values())
    standing = pool.callable_ids
    assert standing == {
        tool.id for tool in catalog if pool.levels[tool.server or ""] is PoolLevel.ARGUMENTS
    }
    assert not PoolWriter(budget=3_000).write(catalog).callable_ids


@settings(deadline=None, max_examples=40)
@given(budget=st.integers(0, 3_000))
def test_a_pool_of_arguments_keeps_its_budget(budget):
    pool = PoolWriter(budget=budget, top=PoolLevel.ARGUMENTS).write(demo.load_catalog())
    assert pool.tokens <= budget
    assert PoolLevel.SUMMARIES not in pool.levels.values()


def test_a_pool_says_summaries_or_arguments():
    with pytest.raises(RequestError, match="summaries or arguments"):
        PoolWriter(top=PoolLevel.NAMES)


def test_a_prompt_tells_what_can_be_called_from_its_prefix(catalog):
    pools = PoolWriter(budget=3_000, top=PoolLevel.ARGUMENTS)
    prompt = Prompt(catalog, pool=pools, withheld=["web/read_feed"])
    assert prompt.callable_ids == {tool.id for tool in catalog} - {"web/read_feed"}
    turn = prompt.turn(["github/search_issues"])
    assert turn.details == {"github/search_issues": Detail.FULL}
    assert Prompt(catalog).callable_ids == frozenset()
    small = Catalog([catalog.get("web/read_feed")])
    shown = Prompt(small)
    assert shown.shows_whole_catalog
    assert shown.callable_ids == {"web/read_feed"}
    prompt.update(small)
    assert prompt.callable_ids == {"web/read_feed"}
