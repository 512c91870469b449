"""The threshold of a tier: which hits it drops, and what the answer says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shortlist import Engine
from shortlist.decision import Decider, TierModel
from shortlist.decision.classifier import Classifier
from shortlist.errors import ConfigError
from shortlist.gating.votes import Votes

from .conftest import Models

MakeEngine = Callable[..., Engine]
QUERY = "create an issue for the board about one file of that channel"


def limit_after(engine: Engine, tier: str, kept: int) -> float:
    """A threshold between the scores of the hits `kept` and `kept + 1`."""
    hits = engine.search(QUERY, tier=tier, k=kept + 1).hits
    assert hits[kept - 1].score > hits[kept].score
    return (hits[kept - 1].score + hits[kept].score) / 2


@pytest.mark.parametrize("tier", ["lexical", "fast", "embed", "hybrid", "rerank"])
def test_hits_below_it_are_dropped_and_the_answer_says_so(
    engine: Engine, make_engine: MakeEngine, tier: str
) -> None:
    plain = engine.search(QUERY, tier=tier, k=8)
    scores = [hit.score for hit in plain]
    kept = next(at for at in range(1, 8) if scores[at] < scores[at - 1])
    limit = limit_after(engine, tier, kept)
    answer = make_engine(tiers={tier: {"threshold": limit}}).search(QUERY, tier=tier, k=8)
    assert answer.ids == plain.ids[:kept]
    assert tuple(hit.id for hit in answer.dropped) == plain.ids[kept:]
    assert answer.hits_and_dropped == plain.hits
    assert answer.threshold == limit
    assert not answer.abstained
    told = answer.to_dict()
    assert told["threshold"] == limit
    assert [row["id"] for row in told["dropped"]] == list(plain.ids[kept:])
    json.dumps(told)


def test_without_one_nothing_is_dropped(engine: Engine) -> None:
    answer = engine.search(QUERY, tier="hybrid")
    assert (answer.threshold, answer.dropped) == (None, ())


def test_an_answer_of_which_all_is_dropped_abstains_with_the_numbers(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine(tiers={"lexical": {"threshold": 1000}})
    answer = engine.search(QUERY, tier="lexical")
    assert answer.ids == ()
    assert answer.abstained
    best = answer.dropped[0].score
    assert answer.reason == (
        f"no tool fits: the best score is {best:.4g}, and tier 'lexical' drops scores below 1000"
    )
    decided = engine.view().search(QUERY, tier="lexical", abstain=True)
    assert decided.abstained
    assert decided.reason == answer.reason
    assert len(decided.dropped) == len(answer.dropped) == 10
    nothing = engine.search("zzzz", tier="lexical")
    assert not nothing.abstained


def test_an_exact_name_and_a_claimed_tool_are_never_dropped(make_engine: MakeEngine) -> None:
    engine = make_engine(tiers={"lexical": {"threshold": 1000}})
    tool = next(iter(engine.catalog))
    for name in (tool.id, tool.name):
        answer = engine.search(name, tier="lexical")
        assert tool.id in answer.ids
        assert not answer.abstained
        assert all("exact" in hit.stages for hit in answer)
    votes = Votes(claimed=(tool.id,))
    assert engine.view(votes=votes).search(QUERY, tier="lexical").ids == (tool.id,)


def test_candidates_that_the_reranker_did_not_score_are_dropped(
    engine: Engine, make_engine: MakeEngine
) -> None:
    strict = make_engine(tiers={"rerank": {"threshold": -1e9, "candidates": 5}})
    answer = strict.search(QUERY, tier="rerank", k=8)
    assert len(answer) == 5
    assert len(answer.dropped) == 3


def test_the_threshold_is_that_of_the_tier_that_ran(make_engine: MakeEngine) -> None:
    tiers = {"hybrid": {"threshold": 1000, "fallback": "lexical"}}
    engine = make_engine(encoder="other", tiers=tiers)
    assert engine.search(QUERY, tier="hybrid").dropped
    answer = engine.search(QUERY, tier="hybrid", budget_ms=1e-4)
    assert answer.tier == "lexical"
    assert (answer.threshold, answer.dropped) == (None, ())


def test_an_explanation_says_that_a_tool_is_dropped(
    engine: Engine, make_engine: MakeEngine
) -> None:
    limit = limit_after(engine, "hybrid", 1)
    view = make_engine(tiers={"hybrid": {"threshold": limit}}).view()
    answer = view.search(QUERY, tier="hybrid")
    first = view.explain(QUERY, answer.ids[0], tier="hybrid")
    assert first.offered
    dropped = answer.dropped[0]
    why = view.explain(QUERY, dropped.id, tier="hybrid")
    assert not why.offered
    assert why.rank == 2
    assert why.reason == (
        f"dropped: its score is {dropped.score:.4g}, and tier 'hybrid' drops scores below "
        f"{limit:.4g}"
    )


def test_the_decision_reads_what_is_dropped_and_answers_up_to_k(make_engine: MakeEngine) -> None:
    query = f"{QUERY} on Slack"
    plain = make_engine().view().search(query, tier="lexical", k=3, abstain=True)
    limit = (plain.hits[0].score + plain.hits[1].score) / 2
    engine = make_engine(tiers={"lexical": {"threshold": limit}})
    strict = engine.view().search(query, tier="lexical", k=3, abstain=True)
    assert strict.fits == plain.fits
    assert strict.ids == plain.ids[:1]
    assert strict.hits_and_dropped == plain.hits


def test_a_calibration_brings_thresholds_and_the_setting_wins(
    make_engine: MakeEngine, models: Models, tmp_path: Path
) -> None:
    always = Classifier(np.zeros(1), np.ones(1), weights=np.zeros(1), offset=5.0)
    model = TierModel(always, ("score",), 0.0, threshold=1000.0)
    path = tmp_path / "calibration.json"
    Decider({"lexical": model}).save(path)
    engine = make_engine(abstention=str(path))
    assert engine.search(QUERY, tier="lexical").threshold == 1000.0
    assert engine.search(QUERY, tier="hybrid").threshold is None
    chosen = make_engine(abstention=str(path), tiers={"lexical": {"threshold": 0.5}})
    assert chosen.search(QUERY, tier="lexical").threshold == 0.5
    assert make_engine(abstention="off").search(QUERY, tier="lexical").threshold is None


@pytest.mark.parametrize("value", ["high", float("nan"), float("inf")])
def test_it_is_a_number(make_engine: MakeEngine, value: object) -> None:
    with pytest.raises(ConfigError, match=r"tiers\.hybrid\.threshold"):
        make_engine(tiers={"hybrid": {"threshold": value}})
