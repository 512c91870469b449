"""Rows of a comparison: right figures, and an honest row for what did not run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shortlist.catalog import Catalog, Tool
from shortlist.errors import ConfigError, EvaluationError, MissingExtraError
from shortlist.evals.dataset import LabelledQuery
from shortlist.lab.peers import NOT_OFFLINE, Peer, load_peer
from shortlist.lab.peers import compare as module
from shortlist.lab.peers.compare import ComparisonSet, Row, compare, table
from shortlist.lab.peers.sets import SETS, labelled_set, xlam_set


class Fixed:
    """Returns the indexed tools in the order of the catalog, whatever is asked."""

    name = "fixed"
    depth_free = True

    def index(self, tools: Sequence[Tool]) -> None:
        self.ids = [tool.id for tool in tools]

    def search(self, query: str, k: int) -> list[str]:
        if query == "fall over":
            raise RuntimeError("out of ideas")
        return self.ids[:k]


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> Peer:
        if name == "fixed":
            return Fixed()
        if name == "absent":
            raise MissingExtraError("peer 'absent'", "lab")
        return load_peer(name)

    monkeypatch.setattr(module, "load_peer", load)


def group(catalog: Catalog, *queries: LabelledQuery, limit_to_pool: bool = False) -> ComparisonSet:
    return ComparisonSet("small", tuple(catalog), queries, limit_to_pool)


def rows(*groups: ComparisonSet, engine: Any = None, **chosen: Sequence[str]) -> list[Row]:
    picked = {"peers": (), "tiers": ()} | chosen
    return list(compare(groups, build=lambda tools: engine, **picked))


FIRST = LabelledQuery("create issue", ("github/create_issue",))
THIRD = LabelledQuery("send message", ("slack/send_message", "disk/read_file"))


@pytest.mark.usefixtures("fixed")
def test_a_peer_is_measured(catalog: Catalog) -> None:
    [row] = rows(group(catalog, FIRST, THIRD), peers=["fixed"])
    held = row.to_dict()
    assert (row.status, row.reason, row.tools) == ("ran", None, 5)
    assert held["queries"] == 2
    assert held["hit@1"] == 0.5
    assert held["hit@3"] == 1.0
    assert held["recall@5"] == 1.0
    assert held["mrr"] == pytest.approx((1 + 1 / 3) / 2, abs=1e-6)
    assert row.index_seconds is not None
    assert row.index_seconds >= 0
    assert held["p95_ms"] >= held["p50_ms"] >= 0


@pytest.mark.usefixtures("fixed")
def test_tiers_stand_beside_peers_in_the_order_asked(catalog: Catalog, engine: Any) -> None:
    found = rows(group(catalog, FIRST, THIRD), engine=engine, peers=["fixed"], tiers=["lexical"])
    assert [row.method for row in found] == ["shortlist lexical", "fixed"]
    assert found[0].to_dict()["hit@1"] == 1.0


@pytest.mark.usefixtures("fixed")
def test_a_pool_restricts_a_peer_without_reordering_or_time(catalog: Catalog) -> None:
    pool = ("disk/read_file", "slack/send_message")
    one = LabelledQuery("send message", ("slack/send_message",), pool)
    [row] = rows(group(catalog, one, limit_to_pool=True), peers=["fixed"])
    held = row.to_dict()
    assert (held["hit@1"], held["p50_ms"], held["p95_ms"]) == (1.0, None, None)
    assert "restricted to the pool" in str(row.reason)


@pytest.mark.usefixtures("fixed")
def test_a_peer_whose_order_depends_on_depth_gets_no_pools(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fixed, "depth_free", False)
    one = LabelledQuery("send message", ("slack/send_message",), ("slack/send_message",))
    [row] = rows(group(catalog, one, limit_to_pool=True), peers=["fixed"])
    assert (row.status, row.summary) == ("no pools", None)
    [row] = rows(group(catalog, one), peers=["fixed"])
    assert row.status == "ran"


def test_a_pool_is_a_mask_for_a_tier(catalog: Catalog, engine: Any) -> None:
    one = LabelledQuery("create issue", ("github/close_issue",), ("github/close_issue",))
    [row] = rows(group(catalog, one, limit_to_pool=True), engine=engine, tiers=["lexical"])
    assert row.to_dict()["hit@1"] == 1.0


@pytest.mark.usefixtures("fixed")
def test_what_did_not_run_says_why(catalog: Catalog) -> None:
    offline = next(iter(NOT_OFFLINE))
    failing = LabelledQuery("fall over", ("disk/read_file",))
    found = rows(group(catalog, FIRST, failing), peers=["fixed", "absent", offline])
    assert [(row.status, row.summary) for row in found] == [
        ("failed", None),
        ("missing", None),
        ("offline", None),
    ]
    assert found[0].reason == "RuntimeError: out of ideas"
    assert ".[lab]" in str(found[1].reason)
    assert found[2].reason == NOT_OFFLINE[offline]


@pytest.mark.usefixtures("fixed")
def test_one_failure_costs_one_row(catalog: Catalog) -> None:
    bad = group(catalog, LabelledQuery("fall over", ("disk/read_file",)))
    found = rows(bad, group(catalog, FIRST), peers=["fixed"])
    assert [row.status for row in found] == ["failed", "ran"]


def test_a_failure_of_a_tier_is_raised(catalog: Catalog) -> None:
    class Broken:
        def view(self, *_args: Any, **_kwargs: Any) -> None:
            raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        rows(group(catalog, FIRST), engine=Broken(), tiers=["lexical"])


def test_an_unknown_peer_stops_the_comparison(catalog: Catalog) -> None:
    with pytest.raises(ConfigError, match="no peer 'nobody'"):
        rows(group(catalog, FIRST), peers=["nobody"])


def test_an_empty_set_is_refused(catalog: Catalog) -> None:
    with pytest.raises(EvaluationError, match="set 'small'"):
        rows(group(catalog), peers=["bm25s"])


@pytest.mark.usefixtures("fixed")
def test_the_table_shows_every_row(catalog: Catalog) -> None:
    shown = table(rows(group(catalog, FIRST, THIRD), peers=["fixed", "absent"]))
    assert shown.columns[:2] == ("method", "hit@1")
    assert [row[0] for row in shown.rows] == ["fixed", "absent"]
    assert shown.rows[0][1:3] == ("50.0", "100.0")
    assert shown.rows[0][-1] == "ran"
    assert shown.rows[1][1] is None
    assert str(shown.rows[1][-1]).startswith("missing: ")
    assert all(len(row) == len(shown.columns) for row in shown.rows)


@pytest.mark.long
def test_the_published_sets_are_read_whole(shared_data: Path) -> None:
    sizes = {}
    for name, read in SETS.items():
        held = read(shared_data / "eval")
        ids = {tool.id for tool in held.tools}
        assert held.name == name
        assert all(query.relevant and ids.issuperset(query.relevant) for query in held.queries)
        sizes[name] = (len(held.tools), len(held.queries))
    assert sizes == {
        "mcp_dev judged": (222, 484),
        "mcp_dev": (3926, 484),
        "livemcpbench": (527, 94),
        "xlam": (1554, 1000),
    }


def test_a_pool_of_xlam_offers_each_query_that_many_tools(shared_data: Path) -> None:
    file = shared_data / "eval" / "xlam" / "xlam_first_1000.jsonl"
    held = xlam_set(file, pool="50", sample=20)
    assert (held.name, held.limit_to_pool, len(held.queries)) == ("xlam 50", True, 20)
    assert all(query.pool is not None and len(query.pool) == 50 for query in held.queries)
    with pytest.raises(ConfigError, match=r"no pool '7'.* has: 2-5"):
        xlam_set(file, pool="7", sample=20)


def test_queries_that_no_tool_serves_are_left_out(tmp_path: Path) -> None:
    tools, queries = tmp_path / "tools.jsonl", tmp_path / "queries.jsonl"
    tools.write_text(
        '{"id": "a/b", "name": "b", "server": "a", "description": "", "input_schema": {}}\n'
    )
    queries.write_text('{"query": "hi", "relevant": []}\n{"query": "b", "relevant": ["a/b"]}\n')
    assert [query.text for query in labelled_set("x", tools, queries).queries] == ["b"]
