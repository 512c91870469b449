from __future__ import annotations

import json

import pytest

from shortlist import Engine
from shortlist.cli.calibrate import chosen_tiers
from shortlist.decision import Decider

from ..engine.fakes import OverlapReranker


@pytest.fixture
def files(index, tmp_path):
    """Requests in the tools' own words for every second tool, and some that no tool serves."""
    tools = list(Engine.open(index, tiers=["lexical"]).catalog)[::2]
    served = [{"query": f"please {tool.description[:60]}", "relevant": [tool.id]} for tool in tools]
    none = ["hello there", "why is the sky blue", "thanks a lot", "tell me a joke", "good night"]
    paths = tmp_path / "served.jsonl", tmp_path / "none.jsonl"
    rows = served, [{"query": query, "relevant": []} for query in none]
    for path, some in zip(paths, rows, strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
    return paths


def test_gates_of_ones_own(run_json, index, files, tmp_path):
    served, none = files
    out = tmp_path / "calibration.json"
    told = run_json(
        *("calibrate", served, "--no-tool", none, "--index", index, "--tier", "hybrid"),
        *("--lost", 0.05, "--out", out),
    )
    figures = told["tiers"]["hybrid"]
    assert figures["start"] == "bundled"
    assert figures["served"] == 60
    assert figures["unserved"] == 5
    assert told["asked_without_servers"] == 60
    assert figures["kept"] > 0.8
    assert figures["offered"] < 8
    assert figures["f1"] > figures["f1_of_all"]
    assert figures["abstained"] > 0.5
    engine, decider = Engine.open(index), Decider.load(out)
    assert set(decider.tiers) == {"hybrid"}
    assert decider.decide(engine.search("good morning, how are you", k=20)).abstained
    calibrated = Engine.open(index, abstention=str(out))
    answer = calibrated.search("create an issue")
    assert answer.threshold == figures["threshold"]
    assert answer.hits_and_dropped == engine.search("create an issue").hits
    assert calibrated.view().search("good morning, how are you", abstain=True).abstained


class Overlap(OverlapReranker):
    """A registered reranker."""


def test_another_encoder_and_a_reranker_get_a_logistic_model(
    run_json, index, files, tmp_path, packages
):
    packages("reranker", "overlap", f"{__name__}:Overlap")
    served, none = files
    out, config = tmp_path / "calibration.json", tmp_path / "config.json"
    plain = {"retrievers": ["lexical"]}
    reranked = {**plain, "reranker": "overlap"}
    config.write_text(json.dumps({"tiers": {"own": reranked, "plain": plain}}))
    told = run_json(
        *("calibrate", served, "--no-tool", none, "--index", index, "--engine-settings", config),
        *("--tier", "own", "--tier", "plain", "--no-threshold", "--out", out),
    )
    for tier, reranker in (("own", "overlap"), ("plain", None)):
        figures = told["tiers"][tier]
        assert (figures["start"], figures["threshold"]) == ("requests", None)
        assert figures["lost"] <= 0.05
        model = Decider.load(out).tiers[tier]
        assert model.reranker == reranker
        assert model.classifier.hidden is None
    engine = Engine.open(index, tiers={"own": reranked}, abstention=str(out))
    judged = engine.view().search("please create an issue", tier="own", abstain=True)
    assert judged.fits is not None
    unjudged = Engine.open(index, tiers={"own": plain}, abstention=str(out))
    found = unjudged.view().search("please create an issue", tier="own", abstain=True)
    assert found.fits is None
    assert "fitted to another reranker" in found.reason


def test_the_tables_name_cost_and_gain(run, index, files, tmp_path):
    told = run(
        *("calibrate", files[0], "--index", index, "--tier", "lexical"),
        *("--out", tmp_path / "calibration.json"),
    )
    assert "Held-out queries" in told.stdout
    assert "abstained" in told.stdout
    assert "60 requests asked again without the servers" in told.stderr


def test_wrong_tiers_and_files_are_refused(run, index, files, tmp_path):
    out = tmp_path / "calibration.json"
    told = run("calibrate", files[0], "--index", index, "--tier", "no", "--out", out, code=2)
    assert "use one of: lexical, fast, embed, hybrid" in " ".join(told.stderr.split())
    told = run("calibrate", files[0], "--index", index, "--tier", "rerank", "--out", out, code=2)
    assert 'Add the line `reranker = "mixedbread-ai/' in " ".join(told.stderr.split())
    told = run("calibrate", files[1], "--index", index, "--out", out, code=1)
    assert "nothing to calibrate on" in told.stderr
    assert not out.exists()


def test_without_a_file_to_write_nothing_is_calibrated(run, index, files):
    told = run("calibrate", files[0], "--index", index, code=2)
    assert "--out" in " ".join(told.stderr.split())


def test_without_a_tier_all_are_calibrated(index):
    engine = Engine.open(index)
    assert chosen_tiers(engine, None) == ["lexical", "fast", "embed", "hybrid"]
    assert chosen_tiers(engine, ["fast", "fast"]) == ["fast"]
