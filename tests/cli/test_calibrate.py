from __future__ import annotations

import json

import pytest

from shortlist import Engine
from shortlist.cli.calibrate import tiers_of
from shortlist.decision import Decider


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
        *("--lost", 0.05, "--alpha", 0.1, "--out", out),
    )
    figures = told["tiers"]["hybrid"]
    assert figures["start"] == "bundled"
    assert figures["served"] == 60
    assert figures["unserved"] == 5
    assert told["asked_without_servers"] == 60
    assert figures["kept"] > 0.8
    assert figures["offered"] < 5
    assert figures["abstained"] > 0.5
    engine, decider = Engine.open(index), Decider.load(out)
    assert set(decider.tiers) == {"hybrid"}
    assert decider.tiers["hybrid"].alpha == 0.1
    assert decider.decide(engine.search("good morning, how are you", k=20)).abstained


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


def test_the_bundled_decision_is_measured_as_it_is(run, run_json, index, files):
    served, none = files
    arguments = ("lab", "check-decision", served, "--no-tool", none, "--index", index)
    told = run_json(*arguments, "--tier", "hybrid", "--tier", "embed")
    assert set(told) == {"hybrid", "embed"}
    assert told["hybrid"]["served"] == 60
    assert [row["alpha"] for row in told["hybrid"]["cuts"]][-1] is None
    assert "Cuts fitted on one half" in run(*arguments, "--tier", "hybrid").stdout
    told = run("calibrate", served, "--index", index, code=2)
    assert "--out" in " ".join(told.stderr.split())


def test_without_a_tier_all_are_calibrated(index):
    engine = Engine.open(index)
    assert tiers_of(engine, None) == ["lexical", "fast", "embed", "hybrid"]
    assert tiers_of(engine, ["fast", "fast"]) == ["fast"]
