"""Reranking in two steps: measurements order all candidates, a model reads the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .protocols import CandidateScorer
from .query import Ranking
from .rerank import RerankStage

if TYPE_CHECKING:
    from .run import Run

#: What a unit of the bundled cross-encoder's logit weighs beside the measurements, and how many
#: candidates it reads; chosen on a development set of requests to real servers.
LOGIT_WEIGHT = 0.04
FINALISTS = 16


class Cascade:
    """A cheap scorer over all candidates, a dear one over the first of them, their scores added.

    What the dear one does not read is given its lowest score, and so stays behind what it reads.

    Args:
        cheap: scores all candidates.
        dear: scores as many of the best as the time left allows, none if that is fewer than two.
        weight: of the dear one's scores.
        finalists: how many the dear one scores at most.
    """

    def __init__(
        self,
        cheap: CandidateScorer,
        dear: RerankStage,
        *,
        weight: float = LOGIT_WEIGHT,
        finalists: int = FINALISTS,
    ) -> None:
        self._cheap = cheap
        self._dear = dear
        self._weight = weight
        self._finalists = finalists

    def affordable(self, _: Run, rows: NDArray[np.int64]) -> int:
        """All of the rows: the cheap scorer's time is not counted."""
        return len(rows)

    def rank(self, run: Run, rows: NDArray[np.int64]) -> Ranking:
        """The rows by score, ties by row.

        Raises:
            ModelError: the dear scorer's model cannot be loaded.
        """
        first = Ranking.best(rows, self._cheap.score(run, rows), len(rows))
        count = self._dear.affordable(run, first.rows[: self._finalists])
        if count < 2:
            return first
        finalists = first.rows[:count]
        read = self._dear.rank(run, finalists)
        logits = np.full(len(rows), read.scores[-1], np.float32)
        logits[np.argsort(finalists)] = read.scores[np.argsort(read.rows)]
        return Ranking.best(first.rows, first.scores + self._weight * logits, len(rows))
