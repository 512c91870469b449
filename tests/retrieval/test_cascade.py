"""The cascade: what the dear scorer reads, what it does to the order, and what a budget leaves."""

from __future__ import annotations

from time import perf_counter, sleep

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from shortlist.retrieval import Query, Ranking, Run
from shortlist.retrieval.cascade import Cascade
from shortlist.retrieval.rerank import RerankStage

Scores = NDArray[np.float32]


class Table:
    """Scores rows by a table; remembers which it was asked for."""

    def __init__(self, values: list[float], ms_each: float = 0.0) -> None:
        self._values = np.array(values, np.float32)
        self._ms_each = ms_each
        self.seen: list[list[int]] = []

    def score(self, run: Run, rows: NDArray[np.int64]) -> Scores:
        self.seen.append(rows.tolist())
        sleep(self._ms_each * len(rows) / 1e3)
        found: Scores = self._values[rows]
        return found


def ranked(
    cheap: Table, dear: Table, rows: list[int], *, finalists: int, budget_ms: float | None = None
) -> Ranking:
    stage = Cascade(cheap, RerankStage(lambda: dear), weight=0.5, finalists=finalists)
    deadline = None if budget_ms is None else perf_counter() + budget_ms / 1e3
    run = Run(Query("q"), 5, {}, {"both": stage}, deadline)
    candidates = Ranking(np.array(rows), np.zeros(len(rows), np.float32))
    return run.rerank("both", candidates, len(rows))


def test_the_dear_scorer_reads_the_best_by_the_cheap_one() -> None:
    cheap, dear = Table([0.1, 0.4, 0.3, 0.2]), Table([9.0, 0.0, 1.0, 9.0])
    found = ranked(cheap, dear, [0, 1, 2, 3], finalists=2)
    assert dear.seen == [[1, 2]]
    assert found.rows.tolist() == [2, 1, 3, 0]
    np.testing.assert_allclose(found.scores, [0.8, 0.4, 0.2, 0.1], rtol=1e-6)


floats = st.floats(-5, 5, width=32)


@given(st.lists(st.tuples(floats, floats), min_size=2, max_size=12), st.integers(2, 12))
def test_finalists_stand_before_the_rest_in_the_order_of_their_sums(
    values: list[tuple[float, float]], finalists: int
) -> None:
    rows = list(range(len(values)))
    cheap, dear = [one for one, _ in values], [one for _, one in values]
    found = ranked(Table(cheap), Table(dear), rows, finalists=finalists)
    read = sorted(rows, key=lambda row: (-cheap[row], row))[:finalists]
    lowest = min(dear[row] for row in read)
    sums = {row: cheap[row] + 0.5 * (dear[row] if row in read else lowest) for row in rows}
    np.testing.assert_allclose(found.scores, sorted(sums.values(), reverse=True), atol=1e-5)
    behind = max((sums[row] for row in rows if row not in read), default=-np.inf)
    assert behind <= min(sums[row] for row in read) + 1e-5


def test_without_time_for_two_the_cheap_order_stands() -> None:
    cheap, dear = Table([0.1, 0.4, 0.3, 0.2]), Table([9.0] * 4, ms_each=20)
    found = ranked(cheap, dear, [0, 1, 2, 3], finalists=4, budget_ms=15)
    assert found.rows.tolist() == [1, 2, 3, 0]


def test_a_budget_is_spent_on_as_many_as_it_allows() -> None:
    cheap, dear = Table(list(np.linspace(1, 0, 12))), Table([0.0] * 12, ms_each=5)
    ranked(cheap, dear, list(range(12)), finalists=12, budget_ms=60)
    probe, read = dear.seen
    assert len(probe) < len(read) + 1 < 12
