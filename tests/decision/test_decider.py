from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.decision import Decider, Decision
from shortlist.decision.calibration import fit_tier
from shortlist.decision.decider import decider_for
from shortlist.decision.measurements import MEASUREMENTS, measure
from shortlist.errors import ConfigError
from shortlist.models import load_encoder
from shortlist.retrieval.selection import Hit, Selection, StageResult


@pytest.fixture(scope="module")
def decider(examples) -> Decider:
    model = fit_tier(examples, [], base=None, reranker=None, k=10, lost=0.05)
    return Decider({"hybrid": model}, encoder="abc", origin={"from": "a test"})


SURE = [0.7, 0.35, *np.linspace(0.3, 0.1, 10)]
LOW = [0.27, 0.26, *np.linspace(0.25, 0.1, 10)]


def test_tools_are_offered_where_one_fits(decider, made_answer):
    decided = decider.decide(made_answer("anything", SURE))
    assert not decided.abstained
    assert decided.fits > decider.tiers["hybrid"].abstain_below
    assert decided.reason is None


def test_nothing_is_offered_where_nothing_fits_and_the_reason_names_the_numbers(
    decider, made_answer
):
    decided = decider.decide(made_answer("anything", LOW))
    assert decided.abstained
    assert f"{decided.fits:.3f}" in decided.reason
    assert f"{decider.tiers['hybrid'].abstain_below:.3f}" in decided.reason


def test_hits_that_a_threshold_dropped_are_measured_too(decider, made_answer):
    found = made_answer("anything", SURE)
    shorter = replace(found, hits=found.hits[:1], dropped=found.hits[1:], threshold=0.5)
    assert decider.decide(shorter) == decider.decide(found)
    nothing = replace(found, hits=(), dropped=found.hits, abstained=True, reason="all dropped")
    assert decider.decide(nothing) == decider.decide(found)


def test_an_answer_without_hits_is_an_abstention(decider):
    decided = decider.decide(Selection("anything", (), "hybrid", "hybrid"))
    assert decided.abstained
    assert decided.reason == "the search found no tool"


def test_the_exact_name_and_a_claim_are_never_turned_away(decider, made_answer):
    for stage in ("exact", "literal", "claim"):
        found = made_answer("anything", LOW)
        first = found.hits[0]._replace(stages={**found.hits[0].stages, stage: StageResult(1, 1.0)})
        decided = decider.decide(replace(found, hits=(first, *found.hits[1:])))
        assert decided == Decision(abstained=False, basis="named", fits=1.0)


def test_a_tier_without_a_gate_is_not_judged(decider, made_answer):
    decided = decider.decide(made_answer("anything", LOW, tier="house"))
    assert not decided.abstained
    assert decided.fits is None
    assert "tier 'house' has no calibration" in decided.reason


def test_another_encoder_leaves_the_tier_without_a_gate_and_says_so(decider, made_answer):
    assert decider.for_engine("abc", {"hybrid": None}).tiers == decider.tiers
    for other, what in (
        (decider.for_engine("xyz", {"hybrid": None}), "encoder"),
        (decider.for_engine("abc", {"hybrid": "house/ranker"}), "reranker"),
    ):
        decided = other.decide(made_answer("anything", LOW))
        assert not decided.abstained
        assert f"fitted to another {what}" in decided.reason
        assert "shortlist calibrate" in decided.reason
        assert other.thresholds == {}


def test_a_model_of_a_reranker_fits_only_this_reranker(decider):
    model = replace(decider.tiers["hybrid"], reranker="house/ranker", threshold=0.5)
    reranked = Decider({"hybrid": model}, encoder="abc")
    assert reranked.for_engine("abc", {"hybrid": "house/ranker"}).thresholds == {"hybrid": 0.5}
    assert reranked.for_engine("abc", {"hybrid": None}).thresholds == {}


@given(st.text(max_size=80), st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_every_answer_has_a_probability(decider, query, scores):
    tools = [Tool(f"t{at}", f"s{at % 3}", "does a thing", {}) for at in range(len(scores))]
    hits = tuple(
        Hit(tool, at + 1, score, {"dense": StageResult(at + 1, score)} if at % 2 else {})
        for at, (tool, score) in enumerate(zip(tools, sorted(scores)[::-1], strict=True))
    )
    found = Selection(query, hits, "hybrid", "hybrid")
    decided = decider.decide(found)
    assert decided == decider.decide(found)
    assert decided.abstained == (decided.fits < decider.tiers["hybrid"].abstain_below)
    assert 0 <= decided.fits <= 1


@given(st.text(max_size=60), st.integers(0, 25))
def test_measurements_are_finite_and_have_one_name_each(query, count):
    hits = tuple(Hit(Tool(f"t{at}", None, "x", {}), at + 1, 0.0, {}) for at in range(count))
    measured = measure(query, hits)
    assert tuple(measured) == MEASUREMENTS
    assert np.isfinite(list(measured.values())).all()


def test_saving_and_loading(decider, made_answer, tmp_path):
    decider.save(tmp_path / "calibration.json")
    read = Decider.load(tmp_path / "calibration.json")
    assert read.encoder == "abc"
    assert read.origin == {"from": "a test"}
    for scores in (SURE, LOW):
        found = made_answer("anything", scores)
        assert read.decide(found).fits == pytest.approx(decider.decide(found).fits, abs=1e-6)
    assert read.thresholds == decider.thresholds


def test_a_calibration_with_an_unknown_measurement_is_refused(decider, tmp_path):
    path = tmp_path / "calibration.json"
    decider.save(path)
    path.write_text(path.read_text(encoding="utf-8").replace('"score_lead"', '"mood"'), "utf-8")
    with pytest.raises(ConfigError, match="does not measure mood"):
        Decider.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 2}', "[" * 50_000, "\ufffd"])
def test_a_file_that_is_no_calibration_is_refused(tmp_path, text):
    path = tmp_path / "calibration.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"calibration\.json"):
        Decider.load(path)


def test_a_file_of_another_format_says_how_to_make_it_anew(tmp_path):
    path = tmp_path / "calibration.json"
    path.write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"format 99.*shortlist calibrate"):
        Decider.load(path)


def test_the_bundled_decision_is_for_the_bundled_encoder_and_tiers_without_a_reranker():
    decider = Decider.bundled()
    assert decider.encoder == load_encoder().fingerprint
    assert set(decider.tiers) == {"lexical", "fast", "embed", "hybrid"}
    assert all(model.reranker is None for model in decider.tiers.values())
    assert decider.thresholds == {}
    assert not decider.tiers["lexical"].dense
    assert decider.origin["files"]


def test_the_bundled_decision_judges_no_tier_that_reranks(tmp_path, made_answer):
    bundled = Decider.bundled()
    reranked = {"hybrid": "overlap", "rerank": "overlap"}
    decider = decider_for("bundled", bundled.encoder, reranked)
    assert set(decider.tiers) == {"lexical", "fast", "embed"}
    for tier in ("hybrid", "rerank"):
        decided = decider.decide(made_answer("anything", LOW, tier=tier))
        assert (decided.abstained, decided.fits) == (False, None)
        assert f"tier {tier!r}" in decided.reason


def test_a_decision_takes_under_a_millisecond(made_answer):
    decider = Decider.bundled()
    found = made_answer("please list the invoices of the shop", np.linspace(0.6, 0.2, 20))
    found = replace(found, vector=np.full(384, 384**-0.5, np.float32))
    decider.decide(found)
    spent = []
    for _ in range(50):
        start = perf_counter()
        decider.decide(found)
        spent.append(perf_counter() - start)
    assert min(spent) < 1e-3


def test_a_query_is_not_refused_if_one_of_the_best_hits_has_all_its_words(decider, made_answer):
    for query, is_kept in (
        ("beta", True),
        ("the Beta of it", True),
        ("words", False),
        ("words beta", True),
        ("words gamma", False),
        ("thank you", False),
    ):
        found = made_answer(query, LOW)
        tool = Tool("beta", "unheard", "Some words")
        hits = (*found.hits[:2], found.hits[2]._replace(tool=tool), *found.hits[3:])
        decided = decider.decide(replace(found, hits=hits))
        assert decided.abstained != is_kept, query
        late = (*found.hits[:3], found.hits[3]._replace(tool=tool), *found.hits[4:])
        assert decider.decide(replace(found, hits=late)).abstained


def test_the_setting_chooses_how_many_served_queries_may_be_lost():
    model = Decider.bundled().tiers["hybrid"]
    limits = [model.with_loss(loss).abstain_below for loss in (0, 0.0025, 0.01, 0.015, 0.2, 1)]
    assert limits == sorted(limits)
    assert limits[0] == 0
    assert limits[2] == limits[3] == model.limits[0.01]
    encoder = Decider.bundled().encoder
    chosen = decider_for("bundled", encoder, {"hybrid": None}, 0.2)
    assert chosen.tiers["hybrid"].abstain_below == model.limits[0.2]
    unchanged = decider_for("bundled", encoder, {"hybrid": None})
    assert unchanged.tiers["hybrid"].abstain_below == model.abstain_below
