"""A budget holds with a reranker that hangs, is slow, or is missing, also in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

from shortlist import Config, Engine
from shortlist.errors import ConfigError, ModelError, RequestError
from shortlist.retrieval import Pipeline
from shortlist.retrieval.search import stage_guard

from ..test_settings import Register
from .conftest import Models
from .fakes import BagEncoder, OverlapReranker, make_tools

MakeEngine = Callable[..., Engine]
QUERY = "create an issue on the board"
BUDGET_MS = 120
OVER_MS = 10
CALLS = 60
RELEASE = Event()


class Bag(BagEncoder):
    """An encoder of another package."""

    def __init__(self) -> None:
        super().__init__()


class Hangs(OverlapReranker):
    """Never answers."""

    def score(self, query: str, texts: Sequence[str]) -> Any:
        RELEASE.wait()
        return super().score(query, texts)


class Slow(OverlapReranker):
    """Takes 15 ms a candidate."""

    def __init__(self) -> None:
        super().__init__("slow", ms_each=15)


class Missing(OverlapReranker):
    """Cannot be reached, and takes its time to find out."""

    tries = 0

    def __init__(self) -> None:
        Missing.tries += 1
        sleep(1)
        raise ModelError("cannot connect")


class Breaks(OverlapReranker):
    """Loads, and fails after a while when it is used."""

    def __init__(self) -> None:
        super().__init__("breaks")
        self.calls = 0

    def score(self, query: str, texts: Sequence[str]) -> Any:
        self.calls += 1
        sleep(0.02)
        raise ModelError("connection lost")


RERANKERS = ("Hangs", "Slow", "Missing", "Breaks")


@pytest.fixture
def registered(packages: Register) -> Callable[..., Engine]:
    """Engines on parts that are registered as those of other packages are."""
    RELEASE.clear()
    packages("encoder", "bag", f"{__name__}:Bag")
    for name in RERANKERS:
        packages("reranker", name.lower(), f"{__name__}:{name}")

    def make(reranker: str, **settings: Any) -> Engine:
        chosen = {"encoder": "bag", "reranker": reranker, "on_missing": "degrade", **settings}
        return Engine.from_tools(make_tools(), **chosen)

    return make


@pytest.mark.parametrize("name", RERANKERS)
def test_answers_come_in_time(registered: Any, name: str) -> None:
    """Nine in ten, by what a search without the reranker takes on this machine meanwhile.

    `shortlist lab bench` measures 99 in 100 at a budget of 50 ms, which needs an idle machine.
    """
    engine = registered(name.lower())
    fused = engine.search(QUERY, tier="hybrid").ids
    times, usual, fell_back = [], [], []
    for _ in range(CALLS):
        start = perf_counter()
        engine.search(QUERY, tier="hybrid")
        usual.append((perf_counter() - start) * 1e3)
        start = perf_counter()
        answer = engine.search(QUERY, tier="rerank", budget_ms=BUDGET_MS)
        times.append((perf_counter() - start) * 1e3)
        assert answer.hits
        if name != "Slow":
            assert "rerank -> hybrid" in str(answer.tier_reason)
            fell_back.append(answer.tier == "hybrid")
            assert answer.tier == "lexical" or answer.ids == fused
    RELEASE.set()
    late = 3 * float(np.percentile(usual, 90))
    assert float(np.percentile(times, 90)) <= BUDGET_MS + max(OVER_MS, late)
    # On a busy machine the encoder, too, takes more than the budget now and then.
    assert sum(fell_back) >= len(fell_back) * 0.8
    if name in ("Missing", "Hangs"):
        # Only the first call found out.
        assert float(np.percentile(times, 50)) < max(BUDGET_MS / 4, late)


def test_a_failure_at_run_time_is_remembered(registered: Any) -> None:
    engine = registered("breaks")
    for _ in range(20):
        assert "connection lost" in str(engine.search(QUERY, tier="rerank").tier_reason)
    assert engine._builder._stages.models.reranker("breaks").model.calls == 1
    engine.replace(list(engine.catalog)[:50])
    engine.search(QUERY, tier="rerank")
    calls = engine._builder._stages.models.reranker("breaks").model.calls
    assert calls == 1, "an update forgets no failure"


def test_the_ranking_before_the_reranker_is_used_where_no_tier_has_it(registered: Any) -> None:
    tiers = {"rerank": {"fallback": "lexical"}}
    engine = registered("hangs", tiers=tiers)
    fused = engine.search(QUERY, tier="hybrid").ids
    answer = engine.search(QUERY, tier="rerank", budget_ms=BUDGET_MS)
    assert (answer.ids, answer.tier) == (fused, "rerank without reranker")
    assert "takes more than the time left" in str(answer.tier_reason)
    alone = engine.search(QUERY, tier=Pipeline(("lexical",), reranker="hangs"), budget_ms=30)
    assert alone.tier == "Pipeline without reranker"
    assert alone.hits
    RELEASE.set()


def test_without_a_budget_a_slow_reranker_is_waited_for(registered: Any) -> None:
    engine = registered("slow")
    answer = engine.search(QUERY, tier="rerank", budget_ms=BUDGET_MS)
    answer = engine.search(QUERY, tier="rerank")
    assert (answer.tier, answer.tier_reason) == ("rerank", None)
    assert sum("rerank" in hit.stages for hit in answer) == 10


def test_an_encoder_that_hangs_gives_a_cheaper_answer_in_time(
    make_engine: MakeEngine, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, release = make_engine(), Event()
    monkeypatch.setattr(models.encoder, "encode", lambda *_, **__: release.wait())
    # The first waits for the encoder until no time is left; later ones skip it at once.
    for tier in ("lexical", "fast", "fast"):
        start = perf_counter()
        answer = engine.search(QUERY, tier="rerank", budget_ms=BUDGET_MS)
        assert perf_counter() - start < 30, "it waited for the encoder, which never answers"
        assert answer.tier == tier
        assert answer.hits
    release.set()


class TestOnMissing:
    def test_a_model_that_is_not_there_is_an_error_when_the_engine_is_made(self) -> None:
        with pytest.raises(ModelError, match=r"reranker 'absent': no model 'absent'.*on_missing"):
            Engine.from_tools(make_tools(3), tiers=["lexical", "rerank"], reranker="absent")

    def test_a_reranker_of_a_tier_that_is_not_offered_is_not_looked_for(self) -> None:
        engine = Engine.from_tools(make_tools(3), tiers=["lexical"], reranker="absent")
        assert engine.search("issue").hits

    def test_a_registered_model_that_cannot_load_is_an_error(self, registered: Any) -> None:
        with pytest.raises(ModelError, match="cannot connect"):
            registered("missing", on_missing="error")

    def test_degraded_it_falls_back_at_once_and_says_why(
        self, registered: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # On a busy machine more than the usual second may pass before the search.
        monkeypatch.setattr(stage_guard, "FIRST_RETRY_S", 600.0)
        engine = registered("missing")
        before = Missing.tries
        answer = engine.search(QUERY, tier="rerank")
        assert Missing.tries == before > 0
        assert answer.tier == "hybrid"
        assert "cannot connect" in str(answer.tier_reason)

    def test_a_missing_encoder_leaves_the_tiers_without_one(
        self, make_engine: MakeEngine, models: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise ModelError("no encoder here")

        monkeypatch.setattr("shortlist.indexing.stage_models.load_encoder", refuse)
        with pytest.raises(ModelError, match="no encoder here"):
            make_engine()
        engine = make_engine(on_missing="degrade")
        for tier in ("embed", "hybrid", "rerank"):
            answer = engine.search(QUERY, tier=tier)
            assert answer.tier == "fast"
            assert "no encoder here" in str(answer.tier_reason)
        engine.replace(make_tools(40))
        assert engine.search(QUERY).ids == engine.search(QUERY, tier="fast").ids
        assert [one.tier for one in engine.view().search_many([QUERY])] == ["fast"]

    def test_a_wrong_value_names_the_right_ones(self) -> None:
        with pytest.raises(ConfigError, match="on_missing"):
            Config(on_missing="ignore")

    def test_a_hub_model_that_is_here_needs_no_network(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from shortlist.models.loading import check_model

        hub = pytest.importorskip("huggingface_hub")
        (tmp_path / "model.onnx").touch()
        (tmp_path / "tokenizer.json").touch()
        monkeypatch.setattr(hub, "snapshot_download", lambda *_, **__: str(tmp_path))
        monkeypatch.setattr(hub, "HfApi", None)
        assert check_model("reranker", "org/name", threads=None)


@pytest.mark.parametrize("budget", [float("inf"), float("nan"), 10**400, 1e300, 0, -1, True, "5"])
def test_a_budget_is_a_finite_number(engine: Engine, budget: Any) -> None:
    with pytest.raises(RequestError, match="budget_ms"):
        engine.search(QUERY, budget_ms=budget)


_COLD = """
import json, sys
from time import perf_counter, thread_time
from shortlist import Engine
engine = Engine.open(sys.argv[1])
start, worked = perf_counter(), thread_time()
answer = engine.search("create an issue on the board", budget_ms=float(sys.argv[2]))
spent = [(perf_counter() - start) * 1e3, (thread_time() - worked) * 1e3]
print(json.dumps([*spent, answer.tier, len(answer)]))
"""


def test_the_first_answer_of_a_process_comes_in_time(tmp_path: Path) -> None:
    budget_ms = 10
    Engine.from_tools(make_tools()).save(tmp_path)
    command = [sys.executable, "-c", _COLD, str(tmp_path), str(budget_ms)]
    took, worked = [], []
    for _ in range(3):
        ms, worked_ms, tier, count = json.loads(subprocess.check_output(command, text=True))
        assert count == 10
        assert tier in ("lexical", "fast", "hybrid")
        took.append(ms)
        worked.append(worked_ms)
    # On a busy machine the process stands still meanwhile; loading a model takes longer than that.
    assert min(worked) <= budget_ms + OVER_MS
    assert min(took) <= budget_ms + 250
