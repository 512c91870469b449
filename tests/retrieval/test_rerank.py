"""The rerank stage and a run's bookkeeping, with models whose cost and answers are known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist.errors import ConfigError, ModelError
from shortlist.retrieval import Pipeline, Query, QueryRun, Ranking
from shortlist.retrieval.search import stage_guard as guard
from shortlist.retrieval.search.fusion import ReciprocalRankFusion
from shortlist.retrieval.search.query_run import BudgetExceeded
from shortlist.retrieval.search.rerank import ModelRerank

Rows = NDArray[np.int64]
Scores = NDArray[np.float32]


class FixedRetriever:
    """Always the same ranking; counts what it is asked."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = np.array(rows, np.int64)
        self.depths: list[int] = []

    def prepare(self, query: Query) -> Query:
        return query

    def search(self, query: Query, depth: int) -> Ranking:
        self.depths.append(depth)
        scores = np.linspace(1, 0, len(self.rows), dtype=np.float32)
        return Ranking(self.rows, scores).head(depth)


class Clock:
    """Time that passes only while a scorer works."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of reranks and budgets. Budgets are long: threads wait for them in real time."""
    clock = Clock()
    for module in ("stage_guard", "rerank", "query_run"):
        monkeypatch.setattr(f"shortlist.retrieval.search.{module}.perf_counter", clock)
    monkeypatch.setattr("shortlist.retrieval.search.time_estimate.monotonic", clock)
    return clock


def texts_of(rows: Rows) -> list[str]:
    """The text of a row is its number."""
    return [str(row) for row in rows.tolist()]


class RowScorer:
    """Scores the text of a row by a function of the row, in so many seconds of the clock each."""

    name = fingerprint = "rows"

    def __init__(
        self, score: Callable[[Rows], Rows], clock: Clock | None = None, each: float = 0.0
    ) -> None:
        self._score = score
        self._clock = clock or Clock()
        self.each = each
        self.seen: list[list[int]] = []

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        rows = np.array([int(text) for text in texts], np.int64)
        self.seen.append(rows.tolist())
        self._clock.now += self.each * len(rows)
        return self._score(rows).astype(np.float32)


def descending(rows: Rows) -> Rows:
    return rows


def ranking(count: int) -> Ranking:
    return Ranking(np.arange(count), np.linspace(1, 0, count, dtype=np.float32))


def run_with(scorer: RowScorer, deadline: float | None = None) -> QueryRun:
    return QueryRun(Query("q"), 5, {}, {"model": ModelRerank(lambda: scorer, texts_of)}, deadline)


def test_candidates_are_reordered_and_the_rest_keeps_its_order() -> None:
    scorer = RowScorer(descending)
    found = run_with(scorer).rerank("model", ranking(8), candidates=5)
    assert found.rows.tolist() == [4, 3, 2, 1, 0, 5, 6, 7]
    assert scorer.seen == [[0, 1, 2, 3, 4]]


def test_fewer_rows_than_candidates() -> None:
    assert run_with(RowScorer(descending)).rerank("model", ranking(2), 40).rows.tolist() == [1, 0]


def test_nothing_to_rerank_loads_nothing() -> None:
    def load() -> RowScorer:
        raise AssertionError

    run = QueryRun(Query("q"), 5, {}, {"model": ModelRerank(load, texts_of)})
    assert len(run.rerank("model", Ranking.empty(), 40)) == 0


def test_equal_scores_rank_by_row() -> None:
    shuffled = Ranking(np.array([7, 2, 9, 0]), np.array([4, 3, 2, 1], np.float32))
    found = run_with(RowScorer(np.zeros_like)).rerank("model", shuffled, 40)
    assert found.rows.tolist() == [0, 2, 7, 9]


def test_a_model_is_loaded_once_and_again_only_after_it_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(guard, "monotonic", lambda: now[0])
    attempts: list[str] = []

    def load() -> RowScorer:
        attempts.append("load")
        if len(attempts) == 1:
            raise ModelError("weights are missing")
        return RowScorer(descending)

    run = QueryRun(Query("q"), 5, {}, {"model": ModelRerank(load, texts_of)})
    with pytest.raises(ModelError, match="weights are missing"):
        run.rerank("model", ranking(3), 3)
    with pytest.raises(ModelError, match="weights are missing"):
        run.rerank("model", ranking(3), 3)
    assert len(attempts) == 1
    now[0] = 1.5
    for _ in range(3):
        run.rerank("model", ranking(3), 3)
    assert len(attempts) == 2


def test_an_unknown_reranker_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match="no reranker 'other'; use one of: model"):
        run_with(RowScorer(descending)).rerank("other", ranking(3), 3)


def test_an_unknown_retriever_lists_what_there_is() -> None:
    run = QueryRun(Query("q"), 5, {"lexical": FixedRetriever([1])}, {})
    with pytest.raises(ConfigError, match="no retriever 'dense'; use one of: lexical"):
        run.retrieve("dense", 10)


def test_a_budget_bounds_the_candidates(clock: Clock) -> None:
    scorer = RowScorer(descending, clock, each=5)
    stage = ModelRerank(lambda: scorer, texts_of)
    stage.rank(QueryRun(Query("q"), 5, {}, {}), np.arange(10))  # learns the cost of one
    run = QueryRun(Query("q"), 5, {}, {"model": stage}, clock() + 100)
    found = run.rerank("model", ranking(100), 100)
    scored = len(scorer.seen[-1])
    assert 2 <= scored <= 20
    assert found.rows.tolist() == [*range(scored - 1, -1, -1), *range(scored, 100)]


def test_a_budget_set_before_anything_was_measured_is_probed(clock: Clock) -> None:
    scorer = RowScorer(descending, clock, each=5)
    run_with(scorer, deadline=120).rerank("model", ranking(100), 100)
    assert len(scorer.seen) == 2
    assert len(scorer.seen[0]) <= 4
    assert 2 <= len(scorer.seen[1]) <= 20


def test_a_budget_too_short_for_two_candidates_is_exceeded(clock: Clock) -> None:
    scorer = RowScorer(descending, clock, each=20)
    with pytest.raises(BudgetExceeded, match="'model'"):
        run_with(scorer, deadline=1).rerank("model", ranking(50), 50)


def test_one_slow_call_does_not_shut_a_budgeted_stage_out_for_good(clock: Clock) -> None:
    scorer = RowScorer(descending, clock, each=20)
    stage = ModelRerank(lambda: scorer, texts_of)
    stage.rank(QueryRun(Query("q"), 5, {}, {}), np.arange(3))
    scorer.each = 0.0
    refused = 0
    while refused < 200:
        run = QueryRun(Query("q"), 5, {}, {"model": stage}, clock() + 10)
        try:
            run.rerank("model", ranking(50), 40)
            break
        except BudgetExceeded:
            refused += 1
            clock.now += 0.1
    assert 5 < refused < 60
    run = QueryRun(Query("q"), 5, {}, {"model": stage}, clock() + 200)
    run.rerank("model", ranking(50), 40)


def test_what_is_too_slow_is_seldom_tried(clock: Clock) -> None:
    scorer = RowScorer(descending, clock, each=20)
    stage = ModelRerank(lambda: scorer, texts_of)
    stage.rank(QueryRun(Query("q"), 5, {}, {}), np.arange(3))
    for _ in range(200):
        run = QueryRun(Query("q"), 5, {}, {"model": stage}, clock() + 2)
        with contextlib.suppress(BudgetExceeded):
            run.rerank("model", ranking(50), 40)
    assert len(scorer.seen) < 8


def test_a_generous_budget_takes_every_candidate(clock: Clock) -> None:
    scorer = RowScorer(descending, clock)
    run_with(scorer, deadline=60).rerank("model", ranking(50), 40)
    assert len(scorer.seen[-1]) == 40


def test_the_model_reads_the_request_and_the_texts_of_the_rows() -> None:
    class Model:
        name = fingerprint = "lengths"

        def score(self, query: str, texts: Sequence[str]) -> Scores:
            return np.array([len(query) * len(text) for text in texts], np.float32)

    stage = ModelRerank(Model, lambda rows: ["x" * row for row in rows.tolist()])
    run = QueryRun(Query("qq"), 5, {}, {"model": stage})
    found = run.rerank("model", ranking(4), 4)
    assert found.rows.tolist() == [3, 2, 1, 0]
    assert found.scores.tolist() == [6, 4, 2, 0]


class TestRun:
    def test_a_stage_is_searched_once_however_often_it_is_asked(self) -> None:
        retriever = FixedRetriever(range(300))
        run = QueryRun(Query("q"), 10, {"lexical": retriever}, {})
        first = run.retrieve("lexical", 100)
        assert run.retrieve("lexical", 50) is first
        assert retriever.depths == [100]
        assert len(run.retrieve("lexical", 200)) == 200
        assert retriever.depths == [100, 200]

    def test_more_hits_than_the_depth_are_retrieved(self) -> None:
        retriever = FixedRetriever(range(300))
        run = QueryRun(Query("q"), 150, {"lexical": retriever}, {})
        assert len(run.retrieve("lexical", 100)) == 150

    def test_placements_are_ranks_from_one_of_every_stage_that_saw_the_row(self) -> None:
        run = QueryRun(
            Query("q"),
            3,
            {"lexical": FixedRetriever([5, 6]), "dense": FixedRetriever([6, 7])},
            {"model": ModelRerank(lambda: RowScorer(descending), texts_of)},
        )
        pipeline = Pipeline(
            ("lexical", "dense"), fusion=ReciprocalRankFusion(), reranker="model", candidates=2
        )
        assert pipeline.rank(run).rows.tolist() == [6, 5, 7]
        places = {
            row: {stage: place.rank for stage, place in stages.items()}
            for row, stages in run.placements([5, 6, 7, 8]).items()
        }
        assert places == {
            5: {"lexical": 1, "fusion": 2, "rerank": 2},
            6: {"lexical": 2, "dense": 1, "fusion": 1, "rerank": 1},
            7: {"dense": 2, "fusion": 3},
            8: {},
        }
        assert set(run.timings) == {"lexical", "dense", "fusion", "rerank"}
        assert all(ms >= 0 for ms in run.timings.values())
