"""Strategies: `Pipeline`, of the built-in tiers, and `ModelPick`.

A `Pipeline` runs retrievers, then a fusion, then a reranker. A `ModelPick` runs the stages of
another tier, then a model that picks from its best candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...settings import PartSettings
from ..backends.protocols import Fusion
from ..query import Ranking
from .fusion import LinearFusion
from .query_run import QueryRun


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Retrieves candidates, merges the rankings, and reranks.

    Args:
        retrievers: stage names, at least one.
        fusion: merges the rankings of several retrievers.
        reranker: name of the reranker, or None.
        depth: number of rows from each retriever.
        candidates: number of rows for the reranker.
        fallback: tier that runs instead if a stage cannot run or the time is short.
    """

    retrievers: tuple[str, ...]
    fusion: Fusion = field(default_factory=LinearFusion)
    reranker: str | None = None
    depth: int = 100
    candidates: int = 40
    fallback: str | None = None

    def ready(self, run: QueryRun) -> bool:
        """Whether every stage has run already, so that `rank` takes no time."""
        depth = self._depth(run)
        return self.reranker is None and all(
            run.has_retrieved(stage, depth) for stage in self.retrievers
        )

    def _depth(self, run: QueryRun) -> int:
        # Nothing reorders the rows of one retriever, so it reads only those of the answer.
        alone = len(self.retrievers) == 1 and self.reranker is None
        return run.k + run.extra_rows if alone else self.depth

    def rank(self, run: QueryRun) -> Ranking:
        """Rows of the index, best first."""
        depth = self._depth(run)
        rankings = run.retrieve_all(self.retrievers, depth)
        ranking = (
            run.fuse(self.fusion, rankings) if len(rankings) > 1 else next(iter(rankings.values()))
        )
        if self.reranker is None:
            return ranking
        return run.rerank(self.reranker, ranking, self.candidates)


class ModelPickSettings(PartSettings):
    """Settings of the strategy `model`.

    Args:
        source: tier whose best candidates the reranker gets, and that answers if it fails.
    """

    source: str = "hybrid"


@dataclass(frozen=True, slots=True)
class ModelPick(Pipeline):
    """The stages of another tier, and a reranker. `Config` takes the stages from that tier.

    Args:
        source: name of that tier.
    """

    Settings: ClassVar[type[PartSettings]] = ModelPickSettings
    source: str = "hybrid"
