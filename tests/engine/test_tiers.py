"""Tiers: which one ran and why, budgets, rerankers that fail, and tiers of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from shortlist import Engine, registry
from shortlist.errors import ConfigError, ModelError, RequestError
from shortlist.retrieval import Pipeline, QueryRun, Ranking, Strategy
from shortlist.retrieval.backends.exact import ExactIndex
from shortlist.retrieval.backends.tantivy import TantivyIndex
from shortlist.retrieval.search import stage_guard as guard
from shortlist.retrieval.search import time_estimate
from shortlist.retrieval.search.time_estimate import TimeEstimate

from .conftest import TIERS, Models
from .fakes import OverlapReranker, make_tools

CROSS_ENCODER = Path(__file__).parents[1] / "models" / "tiny_reranker"

MakeEngine = Callable[..., Engine]
QUERY = "write an issue"


class TestRerank:
    def test_the_reranker_orders_the_candidates(self, engine: Engine) -> None:
        answer = engine.search(QUERY, tier="rerank", k=100)
        scored = [hit for hit in answer if "rerank" in hit.stages]
        assert len(scored) == 40
        assert [hit.rank for hit in scored] == list(range(1, 41))
        scores = [hit.score for hit in scored]
        assert scores == sorted(scores, reverse=True)
        fused = engine.search(QUERY, tier="hybrid", k=100)
        assert {hit.id for hit in scored} == set(fused.ids[:40])
        assert answer.ids[40:] == fused.ids[40:]

    def test_a_cross_encoder_in_a_folder(self) -> None:
        engine = Engine.from_tools(make_tools(), reranker=str(CROSS_ENCODER))
        assert engine.tiers == TIERS
        answer = engine.search(QUERY, tier="rerank", k=100)
        assert (answer.tier, answer.tier_reason) == ("rerank", None)
        assert sum("rerank" in hit.stages for hit in answer) == 40
        fused = engine.search(QUERY, tier="hybrid", k=100).ids
        assert answer.ids[:40] != fused[:40]
        assert set(answer.ids[:40]) == set(fused[:40])
        decided = engine.view().search(QUERY, tier="rerank", abstain=True)
        assert (decided.reason, decided.fits) == ("tier 'rerank' has no calibration", None)
        assert not decided.abstained
        assert engine.session(tier="rerank").turn("good morning to you").ids

    def test_without_a_reranker_the_tier_says_what_line_to_add(self) -> None:
        engine = Engine.from_tools(make_tools(3))
        assert engine.tiers == TIERS[:-1]
        line = r'tier \'rerank\': .*`reranker = "mixedbread-ai/.*pip install \'\.\[hub\]'
        for search in (engine.search, engine.view().search):
            with pytest.raises(RequestError, match=line):
                search(QUERY, tier="rerank")
        assert engine.search(QUERY, tier="auto").tier == "hybrid"
        few = Engine.from_tools(make_tools(3), tiers=["lexical"], reranker="not/loaded")
        with pytest.raises(RequestError, match="no 'rerank'; use one of: lexical, auto"):
            few.search(QUERY, tier="rerank")

    def test_candidates_are_configured(self, make_engine: MakeEngine, models: Models) -> None:
        engine = make_engine(tiers={"rerank": {"candidates": 7}})
        engine.search(QUERY, tier="rerank")
        assert models.rerankers["overlap"].scored == [7]

    def test_the_model_is_loaded_by_the_first_request_that_needs_it(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine()
        engine.search(QUERY, tier="hybrid")
        assert models.loaded == ["bundled"]
        for _ in range(3):
            engine.search(QUERY, tier="rerank")
        engine.replace(list(engine.catalog)[:50])
        engine.search(QUERY, tier="rerank")
        assert models.loaded == ["bundled", "overlap"]

    def test_only_what_is_allowed_is_scored(self, make_engine: MakeEngine, models: Models) -> None:
        engine = make_engine()
        allowed = [tool.id for tool in engine.catalog][:9]
        engine.view(allowed=allowed).search(QUERY, tier="rerank")
        assert models.rerankers["overlap"].scored == [9]


class TestFallback:
    def test_a_reranker_that_cannot_load_gives_hybrid_and_says_so(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine(reranker="absent", on_missing="degrade")
        answer = engine.search(QUERY, tier="rerank")
        assert (answer.tier_asked, answer.tier) == ("rerank", "hybrid")
        assert answer.tier_reason is not None
        assert "no reranker 'absent' here" in answer.tier_reason
        assert answer.ids == engine.search(QUERY, tier="hybrid").ids
        assert all("rerank" not in hit.stages for hit in answer)

    def test_a_reranker_that_appears_later_is_used(
        self, make_engine: MakeEngine, models: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]
        monkeypatch.setattr(guard, "monotonic", lambda: now[0])
        engine = make_engine(reranker="late", on_missing="degrade")
        models.rerankers["late"] = OverlapReranker("late")
        assert engine.search(QUERY, tier="rerank").tier == "hybrid"
        assert models.loaded == ["bundled"]
        now[0] = 1.5
        answer = engine.search(QUERY, tier="rerank")
        assert (answer.tier, answer.tier_reason) == ("rerank", None)

    def test_an_encoder_that_fails_gives_lexical_through_every_tier(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine()
        models.encoder.broken = ModelError("session lost")
        for tier in ("embed", "hybrid", "rerank"):
            answer = engine.search(QUERY, tier=tier)
            assert (answer.tier_asked, answer.tier) == (tier, "fast")
            assert "session lost" in str(answer.tier_reason)
            assert answer.ids == engine.search(QUERY, tier="fast").ids
        answer = engine.search(QUERY, tier="rerank")
        assert "rerank -> hybrid" in str(answer.tier_reason)
        assert "hybrid -> fast" in str(answer.tier_reason)

    def test_without_a_tier_to_fall_to_the_error_is_the_answer(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine(tiers=["embed"])
        models.encoder.broken = ModelError("session lost")
        with pytest.raises(ModelError, match="session lost"):
            engine.search(QUERY)

    def test_another_kind_of_error_falls_back_too_and_is_not_hidden(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine()
        models.encoder.broken = ZeroDivisionError("by zero")
        answer = engine.search(QUERY, tier="hybrid")
        assert answer.tier == "fast"
        assert "encoder 'bag' failed: ZeroDivisionError: by zero" in str(answer.tier_reason)

    def test_explain_falls_back_as_search_does(self, make_engine: MakeEngine) -> None:
        found = (
            make_engine(reranker="absent", on_missing="degrade")
            .view()
            .explain(QUERY, "github/create_issue", tier="rerank")
        )
        assert found.rank is not None
        assert "rerank" not in found.stages


class TestBudget:
    def test_a_short_budget_reranks_fewer(self, make_engine: MakeEngine, models: Models) -> None:
        slow = models.rerankers["overlap"] = OverlapReranker(ms_each=15)
        engine = make_engine()
        engine.search(QUERY, tier="rerank")  # learns what a candidate costs
        answer = engine.search(QUERY, tier="rerank", budget_ms=450)
        assert slow.scored[0] == 40
        assert 2 <= slow.scored[-1] < 30
        assert len(answer) == 10
        assert (answer.tier_asked, answer.tier) == ("rerank", "rerank in part")
        assert f"for {slow.scored[-1]} of 40 candidates" in str(answer.tier_reason)

    def test_what_is_not_reranked_whole_keeps_the_scores_of_the_stage_before(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        models.rerankers["overlap"] = OverlapReranker(ms_each=15)
        engine = make_engine(tiers={"rerank": {"threshold": 1000.0}})
        fused = engine.search(QUERY, tier="hybrid")
        engine.search(QUERY, tier="rerank")
        view = engine.view()
        answer = view.search(QUERY, tier="rerank", budget_ms=450, abstain=True)
        assert [hit.score for hit in answer] == [hit.score for hit in fused]
        assert any("rerank" in hit.stages for hit in answer)
        assert (answer.threshold, answer.dropped, answer.abstained) == (None, (), False)
        # Its query can be searched again, although no tier has that name.
        assert view.search_among(fused.ids, answer, tier="hybrid").ids
        assert view.search_among(fused.ids, answer).tier == "rerank"

    def test_too_short_a_budget_gives_the_cheaper_tier_with_the_reason(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        models.rerankers["overlap"] = OverlapReranker(ms_each=30)
        engine = make_engine()
        engine.search(QUERY, tier="rerank")
        answer = engine.search(QUERY, tier="rerank", budget_ms=25)
        assert answer.tier in {"hybrid", "fast", "lexical"}
        assert answer.tier_asked == "rerank"
        assert "rerank -> hybrid" in str(answer.tier_reason)
        assert answer.hits

    def test_no_time_at_all_still_answers(self, engine: Engine, tier: str) -> None:
        answer = engine.search(QUERY, tier=tier, budget_ms=1e-6)
        assert answer.tier == "lexical"
        assert answer.hits
        assert (answer.tier_reason is None) == (tier == "lexical")

    def test_a_generous_budget_changes_nothing(self, engine: Engine, tier: str) -> None:
        generous = engine.search(QUERY, tier=tier, budget_ms=600_000)
        assert generous.ids == engine.search(QUERY, tier=tier).ids
        assert generous.tier == tier


@dataclass
class Alphabetic:
    """All the allowed tools by id."""

    fallback: str | None = None

    def rank(self, run: QueryRun) -> Ranking:
        found = run.retrieve("dense", 1_000)
        return Ranking.best(found.rows, np.zeros(len(found), np.float32), len(found))


class TestOfOnesOwn:
    def test_a_class_from_code(self, engine: Engine) -> None:
        strategy: Strategy = Alphabetic()
        answer = engine.search(QUERY, tier=strategy, k=4)
        assert answer.ids == tuple(sorted(tool.id for tool in engine.catalog))[:4]
        assert (answer.tier, answer.tier_asked) == ("Alphabetic", "Alphabetic")
        assert set(answer.timings) >= {"encode", "dense"}
        assert answer.hits[0].stages["dense"].rank >= 1

    def test_it_works_with_masks_batches_and_explain(self, engine: Engine) -> None:
        allowed = [tool.id for tool in engine.catalog if tool.server == "jira"]
        answer = engine.view(allowed=allowed).search(QUERY, tier=Alphabetic(), k=100)
        assert answer.ids == tuple(sorted(allowed))
        [batch] = engine.view(allowed=allowed).search_many([QUERY], tier=Alphabetic(), k=100)
        assert batch.ids == answer.ids
        assert engine.view().explain(QUERY, allowed[0], tier=Alphabetic()).tier == "Alphabetic"

    def test_it_may_fall_back(self, engine: Engine) -> None:
        class Fails:
            fallback = "lexical"

            def rank(self, run: QueryRun) -> Ranking:
                raise ModelError("not today")

        answer = engine.search(QUERY, tier=Fails())
        assert (answer.tier_asked, answer.tier) == ("Fails", "lexical")
        assert "not today" in str(answer.tier_reason)

    def test_a_class_without_a_fallback_is_no_strategy(self, engine: Engine) -> None:
        class Half:
            def rank(self, run: QueryRun) -> Ranking:
                raise NotImplementedError

        with pytest.raises(RequestError, match="`fallback`"):
            engine.search(QUERY, tier=Half())  # type: ignore[arg-type]

    def test_a_pipeline_composed_in_code(self, engine: Engine) -> None:
        pipeline = Pipeline(("lexical",), reranker="overlap", candidates=3)
        answer = engine.search(QUERY, tier=pipeline)
        assert answer.tier == "Pipeline"
        assert set(answer.timings) == {"lexical", "rerank"}

    def test_a_pipeline_that_names_no_stage_here(self, engine: Engine) -> None:
        with pytest.raises(ConfigError, match="use one of: lexical, static, dense"):
            engine.search(QUERY, tier=Pipeline(("graph",)))
        with pytest.raises(ConfigError, match="use one of: overlap"):
            engine.search(QUERY, tier=Pipeline(("lexical",), reranker="other"))

    def test_a_tier_composed_in_config(self, make_engine: MakeEngine, models: Models) -> None:
        models.rerankers["second"] = OverlapReranker("second")
        engine = make_engine(
            tiers={
                "quick": {"retrievers": ["lexical"], "reranker": "second", "candidates": 5},
                "keen": {
                    "retrievers": ["dense", "lexical"],
                    "fusion": {"method": "rrf", "k": 1, "weights": {"dense": 3}},
                    "fallback": "quick",
                },
            },
            default_tier="quick",
        )
        assert engine.tiers == ("lexical", "fast", "embed", "hybrid", "rerank", "quick", "keen")
        answer = engine.search(QUERY)
        assert answer.tier == "quick"
        assert set(answer.timings) == {"lexical", "rerank"}
        assert models.rerankers["second"].scored == [5]
        top = engine.search(QUERY, tier="keen").hits[0]
        expected = 3 / (1 + top.stages["dense"].rank) + 1 / (1 + top.stages["lexical"].rank)
        assert top.score == pytest.approx(expected)
        models.encoder.broken = ModelError("session lost")
        assert engine.search(QUERY, tier="keen").tier == "quick"

    def test_only_the_stages_of_the_tiers_are_built(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine(tiers=["lexical"])
        assert engine.build_progress.newly_encoded == 0
        assert models.loaded == []
        assert engine.search(QUERY).tier == "lexical"
        with pytest.raises(RequestError, match=r"use one of: lexical, auto$"):
            engine.search(QUERY, tier="hybrid")


class Reversed(ExactIndex):
    """A dense index of another package."""

    def search(self, *arguments: Any) -> Ranking:
        found = super().search(*arguments)
        return Ranking(found.rows[::-1], -found.scores[::-1])


class Shouting(TantivyIndex):
    """A lexical index of another package."""


@dataclass
class FirstStage:
    """A strategy of another package."""

    retrievers: Sequence[str]
    fusion: Any
    reranker: str | None
    depth: int
    candidates: int
    fallback: str | None

    def rank(self, run: QueryRun) -> Ranking:
        return run.retrieve(self.retrievers[0], self.depth)


class TestOfOtherPackages:
    @pytest.fixture(autouse=True)
    def packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = {
            "dense": {"reversed": "Reversed"},
            "lexical": {"shouting": "Shouting"},
            "strategy": {"first": "FirstStage"},
        }

        def registered(kind: str) -> dict[str, EntryPoint]:
            return {
                name: EntryPoint(name, f"{__name__}:{value}", f"shortlist.{kind}")
                for name, value in points.get(kind, {}).items()
            }

        monkeypatch.setattr(registry, "_registered", registered)

    def test_a_dense_index(self, make_engine: MakeEngine, engine: Engine) -> None:
        other = make_engine(dense={"backend": "reversed"})
        usual = engine.search(QUERY, tier="embed", k=100).ids
        assert other.search(QUERY, tier="embed", k=100).ids == usual[::-1]

    def test_a_lexical_index_is_saved_and_opened(
        self, make_engine: MakeEngine, tmp_path: Any
    ) -> None:
        first = make_engine(lexical={"backend": "shouting"})
        first.save(tmp_path)
        opened = Engine.open(tmp_path, lexical={"backend": "shouting"}, reranker="overlap")
        assert opened.search(QUERY, tier="lexical").ids == first.search(QUERY, tier="lexical").ids

    def test_a_strategy(self, make_engine: MakeEngine) -> None:
        engine = make_engine(tiers={"mine": {"strategy": "first", "retrievers": ["lexical"]}})
        assert set(engine.search(QUERY, tier="mine").timings) == {"lexical"}

    def test_a_strategy_that_takes_other_settings_is_a_config_error(
        self, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FirstStage, "__init__", lambda self: None)
        with pytest.raises(ConfigError, match=r"tiers\.mine: strategy 'first'"):
            make_engine(tiers={"mine": {"strategy": "first", "retrievers": ["lexical"]}})


class TestAuto:
    def test_without_a_budget_it_is_the_best_tier(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        found = engine.search(QUERY, tier="auto")
        assert (found.tier_asked, found.tier) == ("auto", "rerank")
        assert found.tier_reason == "auto -> rerank: not measured yet, no budget"
        assert found.hits == engine.search(QUERY, tier="rerank").hits
        assert "ms here, no budget" in str(engine.search(QUERY, tier="auto").tier_reason)
        [many] = engine.view().search_many([QUERY], tier="auto")
        assert many.ids == found.ids

    def test_of_several_tiers_it_is_the_best_there_is(self, make_engine: MakeEngine) -> None:
        engine = make_engine(tiers=["lexical", "fast"], default_tier="auto")
        assert engine.search(QUERY).tier == "fast"
        assert engine.session(tier="auto").turn(QUERY).hits

    def test_a_tier_of_that_name_comes_first(self, make_engine: MakeEngine) -> None:
        engine = make_engine(tiers={"auto": {"retrievers": ["lexical"]}})
        found = engine.search(QUERY, tier="auto")
        assert (found.tier, found.tier_reason) == ("auto", None)

    def test_with_a_budget_it_is_the_best_that_fits(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        slow = {"rerank": 900_000.0, "hybrid": 700_000.0, "embed": 600_000.0}
        for tier, ms in {**slow, "fast": 0.1}.items():
            engine._tiers._times[tier].record(ms)
        found = engine.search(QUERY, tier="auto", budget_ms=60_000)
        assert found.tier == "fast"
        reason = str(found.tier_reason)
        assert reason.startswith("auto -> rerank: 900000.0 ms here, ")
        assert "rerank -> hybrid: tier 'rerank' takes 900000.0 ms here" in reason
        assert "hybrid -> embed: tier 'hybrid' takes 700000.0 ms here" in reason
        assert "embed -> fast: tier 'embed' takes 600000.0 ms here" in reason
        engine._tiers._times["embed"] = TimeEstimate()
        assert engine.search(QUERY, tier="auto", budget_ms=60_000).tier == "embed"
        engine._tiers._times["hybrid"] = TimeEstimate()
        assert engine.search(QUERY, tier="auto", budget_ms=60_000).tier == "hybrid"

    def test_the_time_of_the_reranker_counts(self, make_engine: MakeEngine, models: Models) -> None:
        slow = models.rerankers["overlap"] = OverlapReranker(ms_each=50)
        engine = make_engine()
        engine.search(QUERY, tier="rerank")  # learns what a candidate costs
        answer = engine.search(QUERY, tier="auto", budget_ms=1_000)
        assert answer.tier == "hybrid"
        assert "rerank -> hybrid: reranker 'overlap': takes more" in str(answer.tier_reason)
        assert slow.scored == [40]
        assert not any("rerank" in hit.stages for hit in answer)

    def test_a_tier_that_is_too_slow_is_not_tried_often(
        self, make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1_000.0]
        monkeypatch.setattr(time_estimate, "monotonic", lambda: now[0])
        engine = make_engine()
        estimate = engine._tiers._times["hybrid"]
        estimate.record(120_000.0)

        def tiers_of_a_burst() -> set[str]:
            return {engine.search(QUERY, tier="hybrid", budget_ms=60_000).tier for _ in range(100)}

        assert tiers_of_a_burst() == {"fast"}
        assert estimate.ms == 120_000.0, "a refused search teaches nothing"
        now[0] += 1.5
        assert tiers_of_a_burst() == {"hybrid"}, "one slow search is not remembered for good"

    def test_searches_that_fail_at_once_or_wait_for_others_teach_nothing(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine()
        encode, release = models.encoder.encode, Event()
        started = Event()

        def slow(*arguments: Any, **options: Any) -> Any:
            started.set()
            assert release.wait(60)
            return encode(*arguments, **options)

        estimate = engine._tiers._times["hybrid"]
        models.encoder.encode = slow  # type: ignore[method-assign]
        first = Thread(target=lambda: engine.search(QUERY, tier="hybrid", budget_ms=60_000))
        first.start()
        assert started.wait(60)
        assert engine.search(QUERY, tier="hybrid", budget_ms=30).tier in ("fast", "lexical")
        assert estimate.ms is None, "it only waited for the other"
        release.set()
        first.join()
        measured = estimate.ms
        assert measured is not None
        models.encoder.encode = encode  # type: ignore[method-assign]
        models.encoder.broken = ModelError("session lost")
        for _ in range(50):
            assert engine.search(QUERY, tier="hybrid", budget_ms=60_000).tier == "fast"
        assert estimate.ms == measured
        models.encoder.broken = None
        engine.view().search_many([QUERY] * 50, tier="hybrid")
        assert estimate.ms == measured, "the encoder's time is missing in those"

    def test_a_burst_of_searches_does_not_make_a_reranker_look_fast(
        self, make_engine: MakeEngine, models: Models, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [1_000.0]
        monkeypatch.setattr(time_estimate, "monotonic", lambda: now[0])
        models.rerankers["overlap"] = OverlapReranker(ms_each=30)
        engine = make_engine()
        engine.search(QUERY, tier="rerank")
        stage = engine._version.index.rerankers["overlap"]
        measured = stage._time_each.ms
        for _ in range(100):
            assert engine.search(QUERY, tier="rerank", budget_ms=40).tier != "rerank"
        assert stage._time_each.ms == measured
