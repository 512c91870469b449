from __future__ import annotations

from typing import Any

import pytest

from shortlist.catalog import Catalog
from shortlist.evals.dataset import LabelledQuery
from shortlist.evals.report import EvaluationResult, breakdown_table, quality_table, to_json
from shortlist.evals.runner import Answer, group_by, measure, summarise, tier_method

QUERIES = (
    LabelledQuery("create an issue", ("github/create_issue",), None, {"style": "natural"}),
    LabelledQuery("send it", ("teams/send_message",), None, {"style": "terse"}),
    LabelledQuery("an issue and a message", ("github/close_issue", "slack/send_message")),
    LabelledQuery("hello", ()),
    LabelledQuery("read my mind", ()),
)
KEYS = [
    "hit@1", "hit@3", "recall@5", "recall@10", "complete@10", "ndcg@10", "mrr",
    "p50_ms", "p95_ms", "abstain_precision", "abstain_recall",
]  # fmt: skip


def test_figures_of_a_run(engine: Any) -> None:
    outcomes = measure(tier_method(engine, "lexical", k=10), QUERIES)
    values = summarise(outcomes).values
    # create_issue and close_issue hold "issue"; both messengers hold "send"; ties go by id.
    assert values["hit@1"] == pytest.approx(2 / 3)
    assert values["hit@3"] == 1.0
    assert values["complete@10"] == 1.0
    assert values["mrr"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert values["abstain_precision"] == 1.0
    assert values["abstain_recall"] == 0.5
    assert [outcome.failed for outcome in outcomes] == [False, False, False, False, True]


def test_json_has_the_published_form_and_repeats(engine: Any) -> None:
    def once() -> dict[str, Any]:
        outcomes = {"lexical": measure(tier_method(engine, "lexical", k=10), QUERIES)}
        held = to_json(EvaluationResult(len(engine.catalog), outcomes, by="style"))
        for values in (*held["tiers"].values(), *held["by"]["style"]["lexical"].values()):
            del values["p50_ms"], values["p95_ms"]
        return held

    outcomes = {"lexical": measure(tier_method(engine, "lexical", k=10), QUERIES)}
    held = to_json(EvaluationResult(len(engine.catalog), outcomes))
    assert (held["tools"], held["queries"]) == (5, 5)
    assert list(held["tiers"]["lexical"]) == KEYS
    assert held["intervals"]["lexical"].keys() == set(KEYS[:7])
    assert once() == once()
    assert list(once()["by"]["style"]["lexical"]) == ["-", "natural", "terse"]


def test_the_first_call_is_not_timed_and_progress_is_told(engine: Any) -> None:
    steps: list[int] = []
    measure(tier_method(engine, "lexical", k=3), QUERIES[:2], progress=steps.append)
    assert steps == [1, 1]
    assert [query for _, query in engine.asked] == ["create an issue", "create an issue", "send it"]
    assert measure(tier_method(engine, "lexical", k=3), ()) == ()


def test_pools_restrict(engine: Any) -> None:
    query = LabelledQuery(
        "send it", ("teams/send_message",), ("teams/send_message", "disk/read_file")
    )
    for limit_to_pool, returned in ((False, 2), (True, 1)):
        (outcome,) = measure(
            tier_method(engine, "lexical", k=9, limit_to_pool=limit_to_pool), [query]
        )
        assert len(outcome.answer.ids) == returned


def test_another_tier_than_asked_is_told(catalog: Catalog, overlap_engine: Any) -> None:
    engine = overlap_engine(catalog, ran={"rerank": "hybrid"})
    outcomes = {"rerank": measure(tier_method(engine, "rerank", k=3), QUERIES)}
    assert to_json(EvaluationResult(len(engine.catalog), outcomes))["ran_as"] == {
        "rerank": {"hybrid: cannot load": len(QUERIES)}
    }


def test_a_refused_query_is_a_failure_and_no_abstention(engine: Any) -> None:
    queries = (LabelledQuery("refuse me", ()), LabelledQuery("refuse me", ("disk/read_file",)))
    outcomes = measure(tier_method(engine, "lexical", k=3), queries)
    assert [(one.failed, one.abstained) for one in outcomes] == [(True, False)] * 2
    values = summarise(outcomes).values
    assert (values["hit@1"], values["abstain_recall"], values["abstain_precision"]) == (0, 0, None)
    held = to_json(EvaluationResult(len(engine.catalog), {"lexical": outcomes}))
    assert held["ran_as"] == {"lexical": {"refused: query: refused": 2}}


def test_only_unserved_queries_have_no_ranking_figures(engine: Any) -> None:
    summary = summarise(measure(tier_method(engine, "lexical", k=3), QUERIES[3:]))
    assert summary.values["recall@10"] is None
    assert summary.intervals == {}
    assert summary.values["abstain_recall"] == 0.5


def test_any_method_can_be_measured() -> None:
    (outcome,) = measure(lambda query: Answer(query.relevant), QUERIES[:1])
    assert not outcome.failed


def test_tables_show_every_tier_and_value(engine: Any) -> None:
    outcomes = {"lexical": measure(tier_method(engine, "lexical", k=10), QUERIES)}
    found = EvaluationResult(len(engine.catalog), outcomes)
    table = quality_table(found.summaries)
    assert table.rows[0][:2] == ("lexical", "66.7 [0-100]")
    assert table.rows[0][-4:-2] == ("100.0", "50.0")
    served = measure(tier_method(engine, "lexical", k=10), QUERIES[:3])
    without = quality_table({"lexical": summarise(served)})
    assert set(table.columns) - set(without.columns) == {"abst. P", "abst. R"}
    turned = table.transposed()
    assert turned.columns == ("tier", "lexical")
    assert turned.rows[0] == ("hit@1", "66.7 [0-100]")
    shown = breakdown_table(outcomes, "style")
    assert [row[:3] for row in shown.rows] == [
        ("- (3)", "lexical", "100.0"),
        ("natural (1)", "lexical", "100.0"),
        ("terse (1)", "lexical", "0.0"),
    ]
    assert list(group_by(outcomes["lexical"], "absent")) == ["-"]
