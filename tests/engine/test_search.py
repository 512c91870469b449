"""A request and its answer: form, order, determinism, and arguments that are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Selection
from shortlist.errors import ConfigError, RequestError, ShortlistError

from .conftest import Models
from .fakes import make_tools
from .languages import REQUESTS

QUERIES = (
    "create an issue",
    "share the page with a channel",
    "list",
    "issue branch file",
    "nothing",
)


def timeless(selection: Selection) -> dict[str, Any]:
    row = selection.to_dict()
    assert row.pop("total_ms") >= 0
    assert all(ms >= 0 for ms in row.pop("timings").values())
    return row


def test_hits_are_ranked_and_bounded(engine: Engine, tier: str) -> None:
    for k in (1, 3, 7, 250):
        answer = engine.search("create an issue on the board", tier=tier, k=k)
        assert len(answer) == len(answer.hits) <= k
        assert [hit.rank for hit in answer] == list(range(1, len(answer) + 1))
        assert len(set(answer.ids)) == len(answer)
        assert (answer.tier, answer.tier_asked, answer.tier_reason) == (tier, tier, None)
        assert answer.catalog == engine.catalog.fingerprint
        assert all(engine.catalog.get(hit.id) is hit.tool for hit in answer)


def test_dense_tiers_fill_the_answer_up_to_the_catalog(engine: Engine) -> None:
    for tier in ("fast", "embed", "hybrid", "rerank"):
        assert len(engine.search("create an issue", tier=tier, k=1_000)) == 100


def test_each_hit_says_where_each_stage_placed_it(engine: Engine) -> None:
    expected = {
        "lexical": {"lexical"},
        "fast": {"lexical", "static", "fusion"},
        "embed": {"dense"},
        "hybrid": {"lexical", "dense", "fusion"},
        "rerank": {"lexical", "dense", "fusion", "rerank"},
    }
    for tier, stages in expected.items():
        answer = engine.search("write an issue", tier=tier, k=5)
        assert set(answer.hits[0].stages) == stages
        assert stages <= set(answer.timings)
        alone = {"lexical": "lexical", "embed": "dense", "rerank": "rerank"}
        last = alone.get(tier, "fusion")
        for hit in answer:
            assert hit.stages[last].rank == hit.rank
            assert hit.stages[last].score == pytest.approx(hit.score)


def test_the_same_request_gives_the_same_answer(
    make_engine: Callable[..., Engine], engine: Engine, tier: str
) -> None:
    again = make_engine()
    for query in QUERIES:
        first = timeless(engine.search(query, tier=tier))
        assert timeless(engine.search(query, tier=tier)) == first
        assert timeless(again.search(query, tier=tier)) == first


def test_the_order_of_the_catalog_does_not_matter(
    make_engine: Callable[..., Engine], engine: Engine, tier: str
) -> None:
    turned = make_engine(list(reversed(make_tools())))
    for query in QUERIES:
        assert turned.search(query, tier=tier).ids == engine.search(query, tier=tier).ids


def test_ties_go_to_the_smaller_id(make_engine: Callable[..., Engine], tier: str) -> None:
    from shortlist import Tool

    twins = [Tool("copy", "s", "Copy a file", id=name) for name in ("zeta", "beta", "alpha")]
    twins.append(Tool("other", "s", "Something else"))
    answer = make_engine(twins).search("copy a file please", tier=tier, k=3)
    assert answer.ids == ("alpha", "beta", "zeta")
    assert len({hit.score for hit in answer}) == 1


def test_an_answer_is_json(engine: Engine, tier: str) -> None:
    row = json.loads(json.dumps(engine.search("create \ud800 issue", tier=tier).to_dict()))
    assert row["tier"] == tier
    assert {"id", "rank", "score", "description", "stages"} == set(row["hits"][0])


def test_many_requests_are_answered_as_each_alone(engine: Engine, tier: str) -> None:
    allowed = [tool.id for tool in engine.catalog][::2]
    for permitted in (None, allowed):
        many = engine.view(allowed=permitted).search_many(QUERIES, tier=tier, k=4)
        alone = [engine.view(allowed=permitted).search(q, tier=tier, k=4) for q in QUERIES]
        assert [answer.ids for answer in many] == [answer.ids for answer in alone]
        assert [answer.query for answer in many] == list(QUERIES)


def test_many_requests_are_encoded_together(
    make_engine: Callable[..., Engine], models: Models
) -> None:
    engine = make_engine()
    calls: list[int] = []
    encode = models.encoder.encode

    def counted(texts: Any, **arguments: Any) -> Any:
        calls.append(len(texts))
        return encode(texts, **arguments)

    models.encoder.encode = counted  # type: ignore[method-assign]
    engine.view().search_many(QUERIES, tier="hybrid")
    assert calls == [len(QUERIES)]


def test_no_requests_no_answers(engine: Engine) -> None:
    assert engine.view().search_many([]) == []


def test_allowed_may_be_any_iterable_in_a_batch(engine: Engine) -> None:
    some = ("github/create_issue", "slack/list_issue")
    answers = engine.view(allowed=iter(some)).search_many(["issue", "list"])
    assert all(set(answer.ids) == set(some) for answer in answers)


def test_asearch_is_search(engine: Engine, tier: str) -> None:
    async def both() -> list[Selection]:
        return await asyncio.gather(
            *(engine.view().asearch(query, tier=tier, k=3) for query in QUERIES)
        )

    assert [answer.ids for answer in asyncio.run(both())] == [
        engine.search(query, tier=tier, k=3).ids for query in QUERIES
    ]


@pytest.mark.parametrize("query", ["", " ", "\n\t\u3000"])
def test_an_empty_request_is_refused_everywhere(engine: Engine, tier: str, query: str) -> None:
    view, session = engine.view(), engine.session(tier=tier)
    tool_id = engine.catalog[0].id
    searches: list[Callable[[], object]] = [
        lambda: engine.search(query, tier=tier),
        lambda: asyncio.run(engine.view().asearch(query, tier=tier)),
        lambda: engine.view().explain(query, tool_id, tier=tier),
        lambda: view.search(query, tier=tier, abstain=True),
        lambda: session.search(query),
    ]
    for search in searches:
        with pytest.raises(RequestError, match=r"^query: is empty; pass what the user asked for$"):
            search()
    with pytest.raises(RequestError, match=r"^queries\[1\]: is empty"):
        view.search_many(["x", query], tier=tier)


def test_an_empty_catalog_answers_with_nothing(
    make_engine: Callable[..., Engine], tier: str
) -> None:
    engine = make_engine([])
    assert engine.search("create an issue", tier=tier).hits == ()
    assert engine.view(allowed=["github/x"]).search("x", tier=tier).hits == ()


def test_one_tool(make_engine: Callable[..., Engine], tier: str) -> None:
    engine = make_engine(make_tools(1))
    assert engine.search("create an issue", tier=tier).ids == ("github/create_issue",)


def test_the_default_k_and_tier_are_configured(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(k=3, default_tier="lexical")
    answer = engine.search("create an issue")
    assert (len(answer), answer.tier) == (3, "lexical")


def test_a_request_is_read_up_to_its_bound(engine: Engine) -> None:
    answer = engine.search("issue " * 20_000)
    assert len(answer.query) == 8_000


class TestAllowed:
    def test_only_what_is_allowed_is_returned(self, engine: Engine, tier: str) -> None:
        allowed = [tool.id for tool in engine.catalog if tool.server == "slack"]
        answer = engine.view(allowed=allowed).search("create an issue", tier=tier, k=100)
        assert set(answer.ids) <= set(allowed)
        if tier != "lexical":
            assert set(answer.ids) == set(allowed)

    @settings(
        deadline=None,
        max_examples=25,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_a_masked_ranking_is_the_full_one_filtered(
        self, engine: Engine, data: st.DataObject
    ) -> None:
        ids = [tool.id for tool in engine.catalog]
        allowed = data.draw(st.sets(st.sampled_from(ids), max_size=60))
        # A query that may ask for destruction: no tool takes the place of one that destroys.
        query = f"{data.draw(st.sampled_from(QUERIES))} or delete it"
        for tier in ("lexical", "embed"):
            full = engine.search(query, tier=tier, k=100).ids
            found = engine.view(allowed=allowed).search(query, tier=tier, k=5).ids
            assert found == tuple(id_ for id_ in full if id_ in allowed)[:5]

    def test_nothing_allowed_nothing_returned(self, engine: Engine, tier: str) -> None:
        assert engine.view(allowed=[]).search("create an issue", tier=tier).hits == ()

    def test_unknown_ids_admit_nothing(self, engine: Engine, tier: str) -> None:
        answer = engine.view(allowed=["nope", "github/create_issue"]).search("issue", tier=tier)
        assert answer.ids == ("github/create_issue",)

    def test_a_far_tool_is_found_when_alone_allowed(self, engine: Engine, tier: str) -> None:
        answer = engine.view(allowed=["github/copy_branch"]).search("copy", tier=tier, k=1)
        assert answer.ids == ("github/copy_branch",)


class TestRefused:
    @pytest.mark.parametrize("k", [0, -1, True, False, 1.0, "3", [3]])
    def test_k(self, engine: Engine, k: Any) -> None:
        for call in (engine.search, lambda q, **a: engine.view().search_many([q], **a)):
            with pytest.raises(RequestError, match=r"^k: .*at least 1"):
                call("issue", k=k)
        with pytest.raises(RequestError, match=r"^k: "):
            engine.view().explain("issue", "github/create_issue", k=k)

    @pytest.mark.parametrize("query", [None, 5, b"issue", ["issue"]])
    def test_query(self, engine: Engine, query: Any) -> None:
        with pytest.raises(RequestError, match=r"^query: a text, not "):
            engine.search(query)
        with pytest.raises(RequestError, match=r"^queries\[0\]: a text, not "):
            engine.view().search_many([query])

    def test_one_text_where_many_are_asked(self, engine: Engine) -> None:
        with pytest.raises(RequestError, match=r"^queries: "):
            engine.view().search_many("issue")

    @pytest.mark.parametrize("name", ["turbo", "", "Hybrid"])
    def test_an_unknown_tier_lists_the_tiers(self, engine: Engine, name: str) -> None:
        with pytest.raises(RequestError, match="use one of: lexical, fast, embed, hybrid, rerank"):
            engine.search("issue", tier=name)

    @pytest.mark.parametrize("tier", [5, object(), ["hybrid"]])
    def test_a_tier_that_is_no_strategy(self, engine: Engine, tier: Any) -> None:
        with pytest.raises(RequestError, match=r"^tier: "):
            engine.search("issue", tier=tier)

    @pytest.mark.parametrize("budget", [0, -5, float("nan"), "10", True])
    def test_budget(self, engine: Engine, budget: Any) -> None:
        with pytest.raises(RequestError, match=r"^budget_ms: "):
            engine.search("issue", budget_ms=budget)

    @pytest.mark.parametrize("allowed", ["github/create_issue", 5, [["github/create_issue"]]])
    def test_allowed(self, engine: Engine, allowed: Any) -> None:
        with pytest.raises(RequestError, match=r"^allowed: "):
            engine.view(allowed=allowed).search("issue")

    def test_a_config_and_single_settings(self, models: Models) -> None:
        from shortlist import Config

        config = Config(k=5, tiers=["lexical", "fast"], session={"k": 2})
        engine = Engine.from_tools([], config, k=3, default_tier="lexical")
        assert (engine.config.k, engine.config.default_tier) == (3, "lexical")
        assert list(engine.config.tiers) == ["lexical", "fast"]
        assert engine.config.session.k == 2
        assert config.k == 5
        has_reranker = Engine.from_tools([], Config(on_missing="degrade"), reranker="org/none")
        assert "rerank" in has_reranker.tiers
        with pytest.raises(ConfigError, match="config: a Config, not dict"):
            Engine.from_tools([], {"k": 5})  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="kk: unknown setting"):
            Engine.from_tools([], config, kk=3)  # type: ignore[call-arg]

    def test_something_else_than_tools(self, models: Models) -> None:
        with pytest.raises(ShortlistError, match="got int"):
            Engine.from_tools([3])  # type: ignore[list-item]


def test_a_catalog_is_taken_as_it_is(make_engine: Callable[..., Engine]) -> None:
    catalog = Catalog(make_tools(5))
    assert make_engine(catalog).catalog is catalog


class TestBundledEncoder:
    @pytest.mark.parametrize(("query", "tool_id"), REQUESTS.items())
    def test_words_of_any_script_find_their_tool(
        self, bundled_engine: Engine, query: str, tool_id: str
    ) -> None:
        assert bundled_engine.search(query, tier="lexical").ids[0] == tool_id
        assert tool_id in bundled_engine.search(query, tier="hybrid", k=5).ids

    def test_meaning_without_a_shared_word(self, bundled_engine: Engine) -> None:
        query = "schedule a meeting tomorrow"
        assert bundled_engine.search(query, tier="embed", k=1).ids == (
            "google/calendar.events.insert",
        )

    def test_an_answer_repeats(self, bundled_engine: Engine) -> None:
        for tier in ("lexical", "embed", "hybrid"):
            first, second = (bundled_engine.search("report a bug", tier=tier) for _ in range(2))
            assert timeless(first) == timeless(second)

    def test_a_batch_ranks_as_single_requests(self, bundled_engine: Engine) -> None:
        queries = ["report a bug", "weather", "start something that serves pages over http"]
        many = bundled_engine.view().search_many(queries, tier="embed", k=3)
        for answer in many:
            assert answer.ids == bundled_engine.search(answer.query, tier="embed", k=3).ids


def test_a_selection_carries_the_encoded_request(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    answer = engine.search("send a letter", tier="embed")
    assert answer.vector is not None
    assert answer.vector.ndim == 1
    assert engine.search("send a letter", tier="lexical").vector is None
    assert "vector" not in answer.to_dict()
