from __future__ import annotations

import json
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.catalog import Tool
from shortlist.decision import Decider
from shortlist.decision.decider import decider_for
from shortlist.decision.measurements import HIT, REQUEST, measure
from shortlist.decision.training import fit_tier
from shortlist.errors import ConfigError
from shortlist.models import load_encoder
from shortlist.retrieval.selection import Hit, Selection, StageResult


@pytest.fixture(scope="module")
def decider(examples) -> Decider:
    model = fit_tier(examples, dense=True, lost=0.05)
    return Decider({"hybrid": model}, encoder="abc", origin={"from": "a test"})


SURE = [0.7, 0.35, *np.linspace(0.3, 0.1, 10)]
LOW = [0.27, 0.26, *np.linspace(0.25, 0.1, 10)]


def test_the_sure_tool_is_offered_and_few_others(decider, made_answer):
    decided = decider.decide(made_answer("anything", SURE))
    assert not decided.abstained
    assert decided.ids[0] == decided.judged[0].hit.id
    assert len(decided.hits) < 6
    assert "keeps 95% of right tools" in decided.cut
    assert decided.reason is None


def test_nothing_is_offered_where_nothing_fits_and_the_reason_names_the_numbers(
    decider, made_answer
):
    decided = decider.decide(made_answer("anything", LOW))
    assert decided.abstained
    assert decided.hits == ()
    assert f"{decided.fits:.3f}" in decided.reason
    assert f"{decider.tiers['hybrid'].abstain_below:.3f}" in decided.reason
    assert len(decided.judged) == 12


def test_an_answer_without_hits_is_an_abstention(decider):
    decided = decider.decide(Selection("anything", (), "hybrid", "hybrid"))
    assert decided.abstained
    assert decided.reason == "the search found no tool"


def test_the_exact_name_and_a_claim_are_never_turned_away(decider, made_answer):
    for stage in ("exact", "claim"):
        found = made_answer("anything", LOW)
        first = found.hits[0]._replace(stages={**found.hits[0].stages, stage: StageResult(1, 1.0)})
        decided = decider.decide(replace(found, hits=(first, *found.hits[1:])))
        assert decided.ids[0] == first.id
        assert not decided.abstained


def test_a_tier_without_a_gate_is_not_judged(decider, made_answer):
    decided = decider.decide(made_answer("anything", LOW, tier="house"), k=3)
    assert len(decided.hits) == 3
    assert decided.fits is None
    assert "tier 'house' has no calibration" in decided.reason


def test_another_encoder_leaves_the_tier_without_a_gate_and_says_so(decider, made_answer):
    assert decider.for_encoder("abc") is decider
    other = decider.for_encoder("xyz")
    decided = other.decide(made_answer("anything", LOW), k=5)
    assert len(decided.hits) == 5
    assert not decided.abstained
    assert "fitted to another encoder" in decided.reason
    assert "shortlist calibrate" in decided.reason


@given(
    st.text(max_size=80),
    st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    st.none() | st.integers(1, 12),
)
def test_what_is_offered_is_a_part_of_the_answer_in_its_order(decider, query, scores, k):
    tools = [Tool(f"t{at}", f"s{at % 3}", "does a thing", {}) for at in range(len(scores))]
    hits = tuple(
        Hit(tool, at + 1, score, {"dense": StageResult(at + 1, score)} if at % 2 else {})
        for at, (tool, score) in enumerate(zip(tools, sorted(scores)[::-1], strict=True))
    )
    found = Selection(query, hits, "hybrid", "hybrid")
    decided = decider.decide(found, k=k)
    assert decided == decider.decide(found, k=k)
    assert decided.abstained == (not decided.hits)
    assert k is None or len(decided.hits) <= k
    places = [found.ids.index(tool_id) for tool_id in decided.ids]
    assert places == sorted(places)
    assert 0 <= decided.fits <= 1
    json.dumps(decided.to_dict())


@given(st.text(max_size=60), st.integers(0, 25))
def test_measurements_are_finite_and_of_one_length(query, count):
    hits = tuple(Hit(Tool(f"t{at}", None, "x", {}), at + 1, 0.0, {}) for at in range(count))
    measured = measure(query, hits)
    assert measured.request.shape == (len(REQUEST),)
    assert measured.hits.shape == (count, len(HIT))
    assert np.isfinite(measured.joined()).all()


def test_saving_and_loading(decider, made_answer, tmp_path):
    decider.save(tmp_path / "calibration.json")
    read = Decider.load(tmp_path / "calibration.json")
    assert read.encoder == "abc"
    assert read.origin == {"from": "a test"}
    for scores in (SURE, LOW):
        found = made_answer("anything", scores)
        assert read.decide(found).ids == decider.decide(found).ids


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"format": 1}', "[" * 50_000, "\ufffd"])
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


def test_the_bundled_decision_are_for_the_bundled_encoder_and_every_tier_but_fast():
    decider = Decider.bundled()
    assert decider.encoder == load_encoder().fingerprint
    assert set(decider.tiers) == {"lexical", "fast", "embed", "hybrid"}
    assert not decider.tiers["lexical"].dense
    assert decider.origin["files"]


def test_the_bundled_decision_judges_no_tier_that_reranks(tmp_path, made_answer):
    bundled = Decider.bundled()
    decider = decider_for("bundled", bundled.encoder, ["hybrid", "rerank"])
    assert set(decider.tiers) == {"lexical", "fast", "embed"}
    for tier in ("hybrid", "rerank"):
        decided = decider.decide(made_answer("anything", LOW, tier=tier))
        assert (len(decided.hits), decided.fits) == (12, None)
        assert f"tier {tier!r} has no calibration" in decided.reason
    # One that was fitted to the tier does.
    bundled.save(tmp_path / "calibration.json")
    fitted = decider_for(tmp_path / "calibration.json", bundled.encoder, ["hybrid"])
    assert set(fitted.tiers) == set(bundled.tiers)


def test_a_decision_takes_under_a_millisecond(made_answer):
    decider = Decider.bundled()
    found = made_answer("please list the invoices of the shop", np.linspace(0.6, 0.2, 20))
    found = replace(found, vector=np.full(384, 384**-0.5, np.float32))
    decider.decide(found)
    spent = []
    for _ in range(50):
        start = perf_counter()
        decider.decide(found, k=10)
        spent.append(perf_counter() - start)
    assert min(spent) < 1e-3
