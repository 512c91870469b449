"""The whole bench over small catalogs, once; and what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from shortlist import Engine, demo
from shortlist.errors import EvaluationError
from shortlist.lab.bench import budgets, report, run
from shortlist.lab.bench.bars import short
from shortlist.lab.bench.decision import RULES, mixed_rules, undivided
from shortlist.lab.bench.material import read_material
from shortlist.lab.bench.processes import run_job
from shortlist.lab.bench.stuffing import stuffing
from shortlist.lab.commands import bench as command

PLAN = run.BenchPlan(sizes=(50, 60), threads=(1,), callers=(1, 2), rounds=1, repeats=1, fast=True)


@pytest.fixture(scope="module")
def steps() -> list[str]:
    return []


@pytest.fixture(scope="module")
def found(steps: list[str]) -> Iterator[run.Bench]:
    material = read_material([], [], sample=4)
    material = replace(material, given=material.given[:55])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "COMPARED_SIZE", 50)
        patch.setattr(budgets, "CALLS", 20)
        patch.setattr(run, "torch_absence", lambda: "not installed: torch")
        yield run.measure(material, PLAN, step=steps.append)


@pytest.fixture(scope="module")
def held(found: run.Bench) -> Any:
    return json.loads(json.dumps(report.to_json(found), allow_nan=False))


def test_every_size_load_and_tier_is_measured(held: Any) -> None:
    seen = [
        (row["tools"], row["threads"], row["callers"], row["tier"]) for row in held["latencies"]
    ]
    tiers = ("lexical", "fast", "embed", "hybrid")
    assert seen == [(n, 1, c, tier) for n in (50, 60) for c in (1, 2) for tier in tiers]
    for row in held["latencies"]:
        assert 0 < row["p50_ms"] <= row["p95_ms"]
        assert row["calls"] == 4
        assert sum(row["ran"].values()) == 4
        assert (row["per_second"] is None) == (row["callers"] == 1)


def test_stages_are_those_of_the_tier(held: Any) -> None:
    stages = {
        row["tier"]: set(row["stages"])
        for row in held["latencies"]
        if row["callers"] == 1 and row["tools"] == 50
    }
    assert stages["lexical"] == {"lexical", "outside stages"}
    assert stages["embed"] == {"encode", "dense", "outside stages"}
    assert stages["hybrid"] >= {"lexical", "encode", "dense", "fusion", "outside stages"}


def test_what_deciding_adds_is_measured_for_every_size(found: run.Bench, held: Any) -> None:
    assert [row["tools"] for row in held["decided"]] == [50, 60]
    for row in held["decided"]:
        assert 0 < row["admitted"] < row["tools"]
        assert row["requests"] == len(undivided(found.material.queries))
        assert row["search_ms"] > 0
    assert len(report.decided_table(found).rows) == 2


def test_answers_under_a_budget_are_measured_and_held_to_it(found: run.Bench, held: Any) -> None:
    assert [row["case"] for row in held["budgets"]] == ["hangs", "slow", "missing", budgets.COLD]
    assert [row["calls"] for row in held["budgets"]] == [20, 20, 20, PLAN.repeats]
    for row in held["budgets"]:
        assert row["ran"]
        assert row["p50_ms"] <= row["p99_ms"]
    bars = [bar.name for bar in report.bars(found) if bar.name.startswith("budget 50 ms")]
    assert bars == [
        "budget 50 ms, reranker hangs, p99",
        "budget 50 ms, reranker is slow, p99",
        "budget 50 ms, reranker is missing, p99",
        "budget 50 ms, first answer of a process, p99",
    ]
    assert len(report.budget_table(found).rows) == 4


def test_stuffed_tools_are_measured_where_there_are_queries_enough(
    found: run.Bench, tmp_path: Path
) -> None:
    assert found.stuffed == []
    Engine.from_tools(demo.load_catalog()).save(tmp_path)
    queries = [request.query for request in demo.load_requests()]
    rows = stuffing(tmp_path, queries)
    assert [row.tier for row in rows] == ["lexical", "fast", "embed", "hybrid"]
    for row in rows:
        assert (row.tools, row.stuffed, row.queries) == (120, 100, 6)
        assert 0 <= row.first <= row.reached <= 1
    shown = replace(found, stuffed=rows)
    assert len(report.stuffing_table(shown).rows) == 4
    assert report.to_json(shown)["stuffing"][0]["tier"] == "lexical"


def test_what_deciding_adds_is_held_to_its_bars(found: run.Bench) -> None:
    bars = {bar.name: bar for bar in report.bars(found)}
    name = "gate of 50 rules, session and decision add"
    assert bars[f"{name}, 1,000 tools"].verdict == "not measured"
    quick = replace(found.decided[0], tools=1_000, wall_ms=0.9)
    bars = {bar.name: bar for bar in report.bars(replace(found, decided=[quick]))}
    assert bars[f"{name}, 1,000 tools, 1 thread"].verdict == "pass"
    assert bars[f"{name}, 50,000 tools"].verdict == "not measured"
    slow = replace(quick, tools=50_000, wall_ms=5.1)
    bars = {bar.name: bar for bar in report.bars(replace(found, decided=[slow]))}
    assert bars[f"{name}, 50,000 tools, 1 thread"].verdict == "short"


def test_the_rules_are_of_every_kind_and_leave_most_tools() -> None:
    gate, state = mixed_rules(demo.load_catalog())
    assert len(gate.rules) == RULES
    engine = Engine.from_tools(demo.load_catalog(), tiers=["lexical"], gate=gate)
    kinds = {refusal.kind for refusal in engine.view(state).admission.refusals}
    assert {"scope", "precondition"} <= kinds


def test_builds_say_what_was_encoded_and_what_is_synthetic(held: Any) -> None:
    small, large = held["builds"]
    assert (small["tools"], small["encoded"], small["synthetic"]) == (50, 50, 0)
    assert small["bare_encoder_s"] > 0
    assert (large["tools"], large["encoded"], large["perturbed"]) == (60, 0, True)
    assert held["tools"]["synthetic"] == {"50": 0, "60": 5}
    assert any("synthetic" in line for line in held["notes"])
    assert any("not encoded" in line for line in held["notes"])


def test_changed_tools_alone_are_encoded_again(held: Any) -> None:
    assert held["reopened"]["changed"] == held["reopened"]["encoded"] == 50


def test_processes_report_start_and_memory(held: Any) -> None:
    assert 0 < held["start"]["import_numpy_cpu_s"] < 5
    parts = held["start"]["first_answer"]
    assert parts["total_s"] == pytest.approx(
        parts["import_s"] + parts["open_s"] + parts["first_query_s"], abs=0.001
    )
    assert held["memory"]["tools"] == 60
    resident = held["memory"]["resident_mb"]
    assert list(resident) == ["start", "imports", "tools", "index", "searches"]
    assert max(resident.values()) <= held["memory"]["peak_mb"] + 0.1
    assert held["install"]["distributions_mb"]["numpy"] > 10
    assert held["install"]["torch"] is False


def test_bars_follow_from_the_figures(found: run.Bench, held: Any) -> None:
    bars = {bar["bar"]: bar for bar in held["bars"]}
    (one,) = held["against_bare"]
    p50 = {name: call["p50_ms"] for name, call in one["latencies"].items()}
    ratio = bars["embed to bare session call, 50 tools, 1 thread"]
    assert ratio["measured"] == pytest.approx(p50["embed"] / p50["bare session"], abs=1e-3)
    assert ratio["verdict"] == ("pass" if ratio["measured"] <= 1.3 else "short")
    assert bars["encoded on opening with 50 tools changed"]["verdict"] == "pass"
    memory = bars["memory to index and search 50,000 tools"]
    assert memory["verdict"] == "not measured"
    assert "60" in memory["reason"]
    torch = bars["sentence-transformers to embed"]
    assert torch["reason"] == "not installed: torch"
    assert {bar.name for bar in short(report.bars(found))} == {
        name for name, bar in bars.items() if bar["verdict"] == "short"
    }


def test_tables_are_whole(found: run.Bench) -> None:
    for table in (
        report.latency_table(found),
        report.stage_table(found),
        report.comparison_table(found),
        report.build_table(found),
        report.process_table(found),
        report.bars_table(found),
    ):
        assert table.rows
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert all(not isinstance(cell, float) or math.isfinite(cell) for cell in row)


def test_steps_are_told(found: run.Bench, steps: list[str]) -> None:
    assert steps[0] == "indexing 50 tools beside the bare encoder"
    assert steps[-2:] == ["searching 60 tools", "gate, session and decision over 60 tools"]


def test_a_size_too_small_to_measure_is_refused() -> None:
    with pytest.raises(EvaluationError, match="at least 50"):
        run.BenchPlan(sizes=(49,))


def test_a_failing_process_says_why() -> None:
    with pytest.raises(EvaluationError, match="not a saved index"):
        run_job("first_answer", folder="/nonexistent", query="q", tier="hybrid")


@pytest.fixture
def app(found: run.Bench, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command, with the measuring done already."""
    monkeypatch.setattr(run, "measure", lambda material, plan, *, step: found)
    app = typer.Typer()
    app.callback()(lambda: None)
    command.register(app)
    return app


def test_the_command_writes_json_and_a_record(app: typer.Typer, tmp_path: Any, held: Any) -> None:
    record = tmp_path / "bench.json"
    result = CliRunner().invoke(app, ["bench", "--json", "--record", str(record)])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["origin"]["versions"]["shortlist"]
    assert {key: shown[key] for key in held} == held
    kept = json.loads(record.read_text())
    assert kept["table"]["columns"] == ["bar", "limit", "measured", "verdict"]
    assert kept["result"] == held


def test_the_command_shows_tables_and_fails_on_a_short_bar(
    app: typer.Typer, found: run.Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = CliRunner().invoke(app, ["bench"])
    assert whole.exit_code == 0, whole.output
    for heading in ("Searches", "Stages", "Compared", "Indexes", "Start and memory", "Goals"):
        assert heading in whole.output
    monkeypatch.setattr(report, "IMPORT_LIMIT_S", -1.0)
    failed = CliRunner().invoke(app, ["bench", "--bars"])
    assert failed.exit_code == command.BARS_FAILED
    assert "short" in failed.output
    assert "Stages" not in failed.output


def test_quick_is_a_size_of_its_own(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, ["bench", "--quick", "--size", "120"]).exit_code == 2
