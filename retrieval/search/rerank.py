"""The rerank stage: a model scores the best candidates again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ...models import Reranker
from ..query import Ranking
from .query_run import QueryRun
from .stage_guard import Guard
from .time_estimate import TimeEstimate

# Share of the time left that a rerank may plan with; the rest absorbs the estimate's error.
_PLANNED_SHARE = 0.8
# Candidates scored to learn the cost of one, when a budget is set before anything was measured.
_PROBE_COUNT = 4


class ModelRerank:
    """Scores candidates with a model that reads the request and each tool's text together.

    The model is loaded on first use. The cost of one candidate is measured. With a deadline, the
    model is loaded and run in a worker thread, see `Guard`.

    Args:
        load: returns the model, a cross-encoder; called once, and again only if it raised.
        texts: function that returns the texts of rows.
        guard: guard of the model; a new one by default.
        reads_all: whether the model reads all candidates in one prompt, so that fewer of them
            take as long.
    """

    def __init__(
        self,
        load: Callable[[], Reranker],
        texts: Callable[[NDArray[np.int64]], Sequence[str]],
        guard: Guard | None = None,
        *,
        reads_all: bool = False,
    ) -> None:
        self._reads_all = reads_all
        self._load = load
        self._texts = texts
        self._guard = guard or Guard()
        self._model: Reranker | None = None
        self._lock = Lock()
        self._time_each = TimeEstimate()

    def rank(self, run: QueryRun, rows: NDArray[np.int64]) -> Ranking:
        """The rows by score, ties by row.

        Raises:
            ModelError: the model fails, or failed a moment ago.
            BudgetExceeded: the run's deadline is near and the model is not done.
        """
        if not len(rows):
            return Ranking.empty()
        return self._guard.call(lambda: self._rank_with_model(run, rows), run.deadline)

    def _rank_with_model(self, run: QueryRun, rows: NDArray[np.int64]) -> Ranking:
        with self._lock:
            if self._model is None:
                self._model = self._load()
        start = perf_counter()
        scores = self._model.score(run.query.text, self._texts(rows))
        self._time_each.record((perf_counter() - start) * 1e3 / len(rows))
        return Ranking.best(rows, scores, len(rows))

    def affordable_count(self, run: QueryRun, rows: NDArray[np.int64]) -> int:
        """How many of the rows can be scored before the run's deadline, by the measured cost.

        All or none if the run `reranks_whole`, or the model reads all in one prompt.
        """
        if run.deadline is None or not len(rows):
            return len(rows)
        if self._reads_all:
            ms_left = (run.deadline - perf_counter()) * 1e3
            return len(rows) if self._time_each.allows(ms_left / len(rows)) else 0
        if self._time_each.ms is None:
            self.rank(run, rows[:_PROBE_COUNT])
        ms_left = _PLANNED_SHARE * (run.deadline - perf_counter()) * 1e3
        if run.reranks_whole:
            return len(rows) if self._time_each.allows(ms_left / len(rows)) else 0
        if not self._time_each.allows(ms_left / 2):
            return 0
        ms_each = self._time_each.ms or 1e-6
        return min(len(rows), max(2, int(ms_left / ms_each)))
