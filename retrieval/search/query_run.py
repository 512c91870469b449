"""Run: the stages of one query, with their results and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ...catalog import Tool
from ...catalog.tool_document import definition_terms
from ...errors import ConfigError, ModelError, RequestError, ShortlistError
from ...text import query_terms
from ..backends.protocols import Fusion, JointSearch, Retriever
from ..query import Query, Ranking
from ..selection import StageResult

MAX_BUDGET_MS = 1_000_000_000
"""Milliseconds that a budget may have at most: eleven days."""
_MAX_RESERVE_MS = 5.0
_RESERVED_SHARE = 0.1


class BudgetExceeded(RequestError):
    """A stage would not finish in the time budget; a cheaper tier should run."""


class StageBusy(BudgetExceeded):
    """A stage did not begin in the time budget, so its time is not known."""


def search_deadline(start: float, budget_ms: float | None) -> float | None:
    """The time at which the stages must be done, for a search that began at `start`.

    Both are values of `perf_counter()`. A tenth of the budget, at most 5 ms, is reserved for the
    answer itself and for the operating system, which may wake a waiting thread late.

    Args:
        start: seconds.
        budget_ms: time limit in milliseconds; None for no limit.

    Raises:
        RequestError: it is not a finite number above 0.
    """
    if budget_ms is None:
        return None
    number = isinstance(budget_ms, int | float) and not isinstance(budget_ms, bool)
    if not number or not 0 < budget_ms <= MAX_BUDGET_MS:
        raise RequestError(
            f"budget_ms: {budget_ms!r:.80}; a number of milliseconds above 0, at most "
            f"{MAX_BUDGET_MS:,}; None for no limit"
        )
    return start + (budget_ms - min(_MAX_RESERVE_MS, budget_ms * _RESERVED_SHARE)) / 1e3


@dataclass(slots=True)
class QueryRun:
    """The stages of one catalog version, for one query.

    A `Strategy` calls `retrieve`, `fuse` and `rerank`. Each result is recorded with its time under
    the name of the stage. `Hit.stages` and `Selection.timings` come from these records.

    Args:
        query: the query.
        k: number of hits of the answer.
        retrievers: stage name to the stage.
        rerankers: reranker name to the stage.
        deadline: `perf_counter()` value by which the answer is due, None for no limit.
        missing_stages: stage name to why it could not be made.
        extra_rows: rows beyond `k` that a tier with one retriever reads; see
            `twins.extra_row_count`.
        joint_search: searches several stages at once; None where each is searched alone.
        tools: tools by row, as the stages were built over them.
        reranks_whole: whether a reranker that has no time for all candidates scores none.

    Attributes:
        rankings: stage name to its ranking, for the stages that ran.
        timings: stage name to its milliseconds, in the order they ran.
        before_rerank: the ranking before the reranker; None if no reranker was asked.
        partly_reranked: the number of candidates that the reranker scored, and of all candidates,
            if it had no time for all; otherwise None.
    """

    query: Query
    k: int
    retrievers: Mapping[str, Retriever]
    rerankers: Mapping[str, RerankStage]
    deadline: float | None = None
    missing_stages: Mapping[str, Exception] = field(default_factory=dict)
    extra_rows: int = 0
    joint_search: JointSearch | None = None
    tools: Sequence[Tool] = ()
    reranks_whole: bool = False
    rankings: dict[str, Ranking] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    before_rerank: Ranking | None = None
    partly_reranked: tuple[int, int] | None = None
    _depths: dict[str, int] = field(default_factory=dict)

    def retrieve(self, stage: str, depth: int) -> Ranking:
        """The best `depth` rows of a retriever. It is searched only once per run.

        Raises:
            ConfigError: there is no such retriever.
            ModelError: the retriever could not be made.
        """
        if self.has_retrieved(stage, depth):
            return self.rankings[stage]
        retriever = self._prepared(stage)
        with self._recorded(stage):
            self.rankings[stage] = retriever.search(self.query, max(depth, self.k))
        self._depths[stage] = max(depth, self.k)
        return self.rankings[stage]

    def retrieve_all(self, stages: Sequence[str], depth: int) -> dict[str, Ranking]:
        """The best `depth` rows of several retrievers, by stage.

        An index with a joint search answers for all at once, in the time of the stage `joint`.

        Raises:
            ConfigError, ModelError: as `retrieve`.
        """
        waiting = [stage for stage in stages if not self.has_retrieved(stage, depth)]
        if self.joint_search is not None and len(waiting) > 1:
            for stage in waiting:
                self._prepared(stage)
            with self._recorded("joint"):
                self.rankings |= self.joint_search.search(self.query, waiting, max(depth, self.k))
            self._depths |= dict.fromkeys(waiting, max(depth, self.k))
        return {stage: self.retrieve(stage, depth) for stage in stages}

    def _prepared(self, stage: str) -> Retriever:
        """The retriever of a stage, with the query prepared for it."""
        retriever = self.retrievers.get(stage)
        if retriever is None:
            if stage in self.missing_stages:
                raise ModelError(str(self.missing_stages[stage]))
            raise ConfigError(f"no retriever {stage!r}; use one of: {', '.join(self.retrievers)}")
        start = perf_counter()
        prepared = retriever.prepare(self.query)
        if prepared is not self.query:
            self.query = prepared
            self.timings["encode"] = (perf_counter() - start) * 1e3
        return retriever

    def has_retrieved(self, stage: str, depth: int) -> bool:
        """Whether `retrieve` has been called with these arguments already."""
        return stage in self.rankings and self._depths.get(stage, 0) >= depth

    def fuse(self, fusion: Fusion, rankings: Mapping[str, Ranking]) -> Ranking:
        """Merge several rankings into one. A lexical one says how much of the query it covers."""
        with self._recorded("fusion"):
            lexical = rankings.get("lexical")
            if getattr(fusion, "reads_coverage", False) and lexical is not None and len(lexical):
                rankings = {**rankings, "lexical": self._with_coverage(lexical)}
            self.rankings["fusion"] = fusion.fuse(rankings)
        return self.rankings["fusion"]

    def _with_coverage(self, lexical: Ranking) -> Ranking:
        terms = lexical.searched_terms or query_terms(self.query.text)
        if not terms or not self.tools:
            return lexical
        covered = definition_terms(self.tools[lexical.rows[0]]).intersection(terms)
        return replace(lexical, best_covers=len(covered) / len(terms))

    def rerank(self, reranker: str, ranking: Ranking, candidates: int) -> Ranking:
        """The first `candidates` rows in the reranker's order, then the others unchanged.

        With a deadline, only as many candidates are scored as the remaining time allows. If these
        are not all, the rows have the scores of the stage before, because scores of two models
        cannot be compared: the scored rows share those of their places, in the reranker's order.

        Raises:
            ConfigError: there is no such reranker.
            BudgetExceeded: the remaining time is too short for two candidates, or for one with
                `reranks_whole`.
        """
        stage = self.rerankers.get(reranker)
        if stage is None:
            raise ConfigError(f"no reranker {reranker!r}; use one of: {', '.join(self.rerankers)}")
        self.before_rerank = ranking
        rows = ranking.rows[:candidates]
        try:
            with self._recorded("rerank"):
                least = len(rows) if self.reranks_whole else min(2, len(rows))
                count = _at_least(least, stage.affordable_count(self, rows))
                scored = stage.rank(self, rows[:count])
        except BudgetExceeded as error:
            raise BudgetExceeded(f"reranker {reranker!r}: {error}") from error
        self.rankings["rerank"] = scored
        reordered = np.concatenate([scored.rows, ranking.rows[count:]])
        if count < len(rows):
            self.partly_reranked = count, len(rows)
            return Ranking(reordered, ranking.scores)
        return Ranking(reordered, np.concatenate([scored.scores, ranking.scores[count:]]))

    def placements(self, rows: Sequence[int]) -> dict[int, dict[str, StageResult]]:
        """For each row, its rank and score in every stage that saw it."""
        placements: dict[int, dict[str, StageResult]] = {row: {} for row in rows}
        for stage, ranking in self.rankings.items():
            for place, row in enumerate(ranking.rows.tolist()):
                if row in placements:
                    score = float(ranking.scores[place])
                    placements[row][stage] = StageResult(place + 1, score)
        return placements

    @contextmanager
    def _recorded(self, stage: str) -> Iterator[None]:
        """Record the time of a stage. A failure of any kind lets the tier fall back.

        Raises:
            ModelError: the stage raised an error that is not a ShortlistError.
        """
        start = perf_counter()
        try:
            yield
        except ShortlistError:
            raise
        except Exception as error:
            raise ModelError(f"stage {stage!r} failed: {type(error).__name__}: {error}") from error
        finally:
            self.timings[stage] = self.timings.get(stage, 0.0) + (perf_counter() - start) * 1e3


def _at_least(least: int, affordable_count: int) -> int:
    if affordable_count < least:
        raise BudgetExceeded("takes more than the time left")
    return affordable_count


class RerankStage(Protocol):
    """Reorders candidate rows, and measures the time of one."""

    def affordable_count(self, run: QueryRun, rows: NDArray[np.int64]) -> int:
        """How many of the rows can be scored before the run's deadline.

        All or none if the run `reranks_whole`.
        """
        ...

    def rank(self, run: QueryRun, rows: NDArray[np.int64]) -> Ranking:
        """The rows by score."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """A tier: decides which stages run for a query, through the methods of its `Run`.

    `fallback` names the tier that runs instead if a stage cannot run or the time is short.
    """

    @property
    def fallback(self) -> str | None:
        """Name of the tier that runs instead; None for none."""
        ...

    def rank(self, run: QueryRun) -> Ranking:
        """Rows of the index, best first."""
        ...
