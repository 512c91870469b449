from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Catalog, Tool
from shortlist.errors import RequestError
from shortlist.evals.dataset import LabelledQuery
from shortlist.lab.training.splits import hold_out, twin_key

SERVERS, NAMES = ("a", "b", "c", "d"), ("read", "send", "list")
CATALOG = Catalog(
    Tool(name, server, f"Will {name}{'' if server in 'ab' else ' on ' + server}")
    for server in SERVERS
    for name in NAMES
)
IDS = [tool.id for tool in CATALOG]

requests = st.lists(
    st.lists(st.sampled_from(IDS), max_size=3, unique=True).map(
        lambda ids: LabelledQuery("request", tuple(ids))
    ),
    max_size=12,
)


@settings(deadline=None)
@given(requests, st.sampled_from(["tool", "server"]), st.floats(0, 1), st.integers(0, 99))
def test_seen_and_unseen_never_mix(
    queries: list[LabelledQuery], by: Literal["tool", "server"], share: float, seed: int
) -> None:
    split = hold_out(CATALOG, queries, by=by, share=share, seed=seed)
    twins = {tool.id: twin_key(tool) for tool in CATALOG}
    seen = {tool_id for query in split.seen for tool_id in query.relevant}
    unseen = {tool_id for query in split.unseen for tool_id in query.relevant}
    assert not seen & split.held_out
    assert unseen <= split.held_out
    assert not {twins[tool_id] for tool_id in seen} & {twins[tool_id] for tool_id in unseen}
    trainable = {twins[tool_id] for tool_id in IDS if tool_id not in split.held_out}
    assert not {twins[tool_id] for tool_id in unseen} & trainable
    if by == "server":
        servers = {CATALOG.get(tool_id).server for tool_id in split.held_out}
        assert split.held_out == {tool.id for tool in CATALOG if tool.server in servers}
    assert len(split.seen) + len(split.unseen) + len(split.straddling) == len(queries)
    assert split == hold_out(CATALOG, queries, by=by, share=share, seed=seed)


@settings(deadline=None)
@given(st.permutations(IDS), st.integers(0, 12), st.integers(0, 99))
def test_a_growing_catalog_keeps_its_split(order: list[str], size: int, seed: int) -> None:
    part = Catalog(CATALOG.get(tool_id) for tool_id in order[:size])
    whole = hold_out(CATALOG, [], by="tool", share=0.4, seed=seed).held_out
    some = hold_out(part, [], by="tool", share=0.4, seed=seed).held_out
    assert some == whole & {tool.id for tool in part}


def test_shares_are_met_on_average_and_seeds_differ() -> None:
    catalog = Catalog(Tool(f"tool_{n}", "server", f"Does {n}") for n in range(2000))
    held = [hold_out(catalog, [], by="tool", share=0.2, seed=seed).held_out for seed in (0, 1)]
    assert all(300 < len(out) < 500 for out in held)
    assert held[0] != held[1]


def test_the_ends() -> None:
    query = LabelledQuery("request", (IDS[0],))
    assert hold_out(CATALOG, [query], by="tool", share=0).seen == (query,)
    assert hold_out(CATALOG, [query], by="tool", share=1).unseen == (query,)
    with pytest.raises(RequestError, match="share"):
        hold_out(CATALOG, [], by="tool", share=1.1)


def test_a_tool_without_a_server_is_held_out_by_itself() -> None:
    catalog = Catalog(Tool(f"tool_{n}", None, f"Does {n}") for n in range(200))
    assert 0 < len(hold_out(catalog, [], by="server", share=0.5).held_out) < 200
