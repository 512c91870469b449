"""The rerank stage: a second, closer look at the best candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..models import Reranker
from .guard import Guard
from .query import Ranking
from .run import CandidateScorer, Run

# Weight of the newest measurement in the running cost of a candidate.
_SMOOTHING = 0.2
# What the running cost loses with each request that it turned away: one slow call must not shut the
# stage out for good, and what is truly too slow must not be tried often.
_FORGETTING = 0.05
# Share of the time left that a rerank may plan with; the rest absorbs the estimate's error.
_MARGIN = 0.8
# Candidates scored to learn the cost of one, when a budget is set before anything was measured.
_PROBE = 4


class TextScorer:
    """Scores candidates by what a model reads in the request and in each tool's text.

    Args:
        model: a cross-encoder.
        texts: function that returns the texts of rows.
    """

    def __init__(
        self, model: Reranker, texts: Callable[[NDArray[np.int64]], Sequence[str]]
    ) -> None:
        self._model = model
        self._texts = texts

    def score(self, run: Run, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The model's score of each row, shape (n,)."""
        return self._model.score(run.query.text, self._texts(rows))


class ModelRerank:
    """A scorer that is loaded on first use, with the measured cost of one candidate.

    With a deadline, the scorer is loaded and run in a worker thread, see `Guard`. A scorer with the
    attribute `watches_deadline` checks the deadline itself and runs in the request's thread.

    Args:
        load: returns the scorer; called once, and again only if it raised.
        guard: guard of the model; a new one by default.
        scorer: the scorer, if it is loaded already.
    """

    def __init__(
        self,
        load: Callable[[], CandidateScorer],
        guard: Guard | None = None,
        scorer: CandidateScorer | None = None,
    ) -> None:
        self._load = load
        self._guard = guard or Guard()
        self._scorer = scorer
        self._lock = Lock()
        self._ms_each: float | None = None

    def rank(self, run: Run, rows: NDArray[np.int64]) -> Ranking:
        """The rows by score, ties by row.

        Raises:
            ModelError: the scorer's model cannot be loaded, or could not be a moment ago.
            BudgetExceeded: the run's deadline is near and the scorer is not done.
        """
        if not len(rows):
            return Ranking.empty()
        watches = getattr(self._scorer, "watches_deadline", False)
        due = None if watches else run.deadline
        return self._guard.call(lambda: self._ranked(run, rows), due)

    def _ranked(self, run: Run, rows: NDArray[np.int64]) -> Ranking:
        with self._lock:
            if self._scorer is None:
                self._scorer = self._load()
        start = perf_counter()
        scores = self._scorer.score(run, rows)
        spent = (perf_counter() - start) * 1e3 / len(rows)
        before = self._ms_each
        self._ms_each = spent if before is None else before + _SMOOTHING * (spent - before)
        return Ranking.best(rows, scores, len(rows))

    def affordable(self, run: Run, rows: NDArray[np.int64]) -> int:
        """How many of the rows can be scored before the run's deadline, by the measured cost."""
        if run.deadline is None or not len(rows):
            return len(rows)
        if self._ms_each is None:
            self.rank(run, rows[:_PROBE])
        left = (run.deadline - perf_counter()) * 1e3
        each = self._ms_each or 1e-6
        count = min(len(rows), max(0, int(_MARGIN * left / each)))
        if count < 2 and left > 0:
            self._ms_each = each * (1 - _FORGETTING)
        return count
