"""Searcher: runs a query in a tier, and makes the Selection from its ranking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError, RequestError
from ..catalog_index import Index
from ..query import Query, Ranking, bounded_query, ties_by_row
from ..refusal import Denials, Refusal
from ..selection import Selection, VoterFailure
from .answer import (
    below_threshold,
    best_denied_rows,
    hits_of_ranking,
    keep_permitted,
    put_named_first,
    split_at_threshold,
)
from .destruction import harmless_first
from .explanation import Explanation, explain
from .query_run import QueryRun, Strategy, search_deadline
from .tiers import Tiers
from .twins import extra_row_count


class AdmittedIndex(Protocol):
    """The part of an index that a request may use; `gating.Admission` decides it.

    Attributes:
        index: the catalog version.
        mask: rows that the request may use, shape (n,); None for all.
        claimed_rows: rows of the tools that their server claims for this turn; they come first.
        voter_failures: votes of servers that do not count.
        unmatched: entries of the caller's `allowed` that match no tool.
        refusal: why a tool is denied, by its id; None for a permitted tool.
        denied: all refusals. Its argument returns a number of denied rows, nearest first.
    """

    @property
    def index(self) -> Index: ...  # noqa: D102
    @property
    def mask(self) -> NDArray[np.bool_] | None: ...  # noqa: D102
    @property
    def claimed_rows(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def voter_failures(self) -> tuple[VoterFailure, ...]: ...  # noqa: D102
    @property
    def unmatched(self) -> tuple[str, ...]: ...  # noqa: D102
    def refusal(self, tool_id: str) -> Refusal | None: ...  # noqa: D102
    def denied(self, nearest: Callable[[int], Sequence[int]]) -> Denials: ...  # noqa: D102


class Searcher:
    """Answers requests in the tiers of an engine, for any catalog version.

    Args:
        tiers: the tiers by name.
        k: default number of hits.
        thresholds: tier name to the score below which it drops hits, for tiers that have one.
    """

    def __init__(self, tiers: Tiers, k: int, thresholds: Mapping[str, float] | None = None) -> None:
        self._tiers = tiers
        self._k = k
        self._thresholds = thresholds or {}

    def search(
        self,
        admitted: AdmittedIndex,
        query: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
        start: float | None = None,
        vector: NDArray[np.float32] | None = None,
    ) -> Selection:
        """The tools a request needs, best first. Whether any fits is not decided here.

        Args:
            admitted: the index, and the part of it that the request may use.
            query: text to search for.
            tier: name of a tier, or a strategy.
            k: maximum number of hits.
            budget_ms: time limit in milliseconds, from `start`.
            start: start of the request by `perf_counter()`; now by default.
            vector: vector of the query, shape (dim,), if it is known.

        Raises:
            RequestError: an argument has a wrong type or value, or there is no such tier.
        """
        start = perf_counter() if start is None else start
        name, strategy = self._tiers.find_tier(tier)
        deadline = search_deadline(start, budget_ms)
        request = Query(bounded_query(query), admitted.mask, vector, deadline)
        run = self._run(admitted, request, k)
        index = admitted.index
        ranking, tier_run, fallback_reason = self._ranked(admitted, run, name, strategy)
        ranking, rows_put_first = put_named_first(index, request, ranking, admitted.claimed_rows)
        ranked = hits_of_ranking(index, run, ranking.head(run.k), rows_put_first)
        threshold = self._thresholds.get(tier_run)
        hits, dropped = split_at_threshold(threshold, ranked)
        return Selection(
            query=run.query.text,
            hits=hits,
            tier=tier_run,
            tier_asked=name,
            tier_reason=fallback_reason,
            timings=run.timings,
            total_ms=(perf_counter() - start) * 1e3,
            catalog=index.catalog.fingerprint,
            denied=admitted.denied(partial(best_denied_rows, index, run, admitted.mask)),
            voter_failures=admitted.voter_failures,
            unmatched=admitted.unmatched,
            vector=run.query.vector,
            pending=index.pending_count,
            threshold=threshold,
            dropped=dropped,
        )

    def tier_to_repeat(self, selection: Selection) -> str:
        """The tier that ran, or the one that was asked for if only a part of its stages ran."""
        return selection.tier if selection.tier in self._tiers.names else selection.tier_asked

    def search_many(
        self,
        admitted: AdmittedIndex,
        queries: Sequence[str],
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
        budget_ms: float | None = None,
    ) -> list[Selection]:
        """One selection per request; requests are encoded together, unless each has a budget.

        Raises:
            RequestError: as `search`.
        """
        if isinstance(queries, str):
            raise RequestError("queries: a list of texts, not one text; see `search`")
        if not isinstance(queries, Iterable):
            raise RequestError(f"queries: a list of texts, not {type(queries).__name__}")
        texts = [bounded_query(query, f"queries[{index}]") for index, query in enumerate(queries)]
        _, strategy = self._tiers.find_tier(tier)
        vectors = None if budget_ms is not None else self._encoded(admitted.index, texts, strategy)
        return [
            self.search(
                admitted,
                text,
                tier=tier,
                k=k,
                budget_ms=budget_ms,
                vector=None if vectors is None else vectors[row],
            )
            for row, text in enumerate(texts)
        ]

    def _encoded(
        self, index: Index, texts: Sequence[str], strategy: Strategy
    ) -> NDArray[np.float32] | None:
        """The texts, encoded together; None where each search does it, if any."""
        if index.encoder is None or "dense" not in getattr(strategy, "retrievers", ()):
            return None
        try:
            return index.encoder.encode(texts, query=True)
        except ModelError:
            # Searched one by one, each query falls back, and its selection says why.
            return None

    def explain(
        self,
        admitted: AdmittedIndex,
        query: str,
        tool_id: str,
        *,
        tier: str | Strategy | None = None,
        k: int | None = None,
    ) -> Explanation:
        """The rank of one tool in each stage, and why it is offered or not.

        Raises:
            UnknownToolError: no such tool.
            RequestError: as `search`.
        """
        index, refusal = admitted.index, admitted.refusal(tool_id)
        name, strategy = self._tiers.find_tier(tier)
        request = Query(bounded_query(query), admitted.mask)
        run = self._run(admitted, request, k)
        ranking, tier_run, fallback_reason = self._ranked(admitted, run, name, strategy)
        ranking, rows_put_first = put_named_first(index, request, ranking, admitted.claimed_rows)
        threshold = self._thresholds.get(tier_run)
        _, dropped = split_at_threshold(
            threshold, hits_of_ranking(index, run, ranking.head(run.k), rows_put_first)
        )
        drop_reason = None
        for hit in dropped:
            if hit.id == tool_id:
                drop_reason = f"dropped: its {below_threshold(hit.score, threshold, tier_run)}"
        row = index.rows[tool_id]
        return explain(
            index,
            run,
            ranking,
            row,
            refusal,
            tier=tier_run,
            tier_asked=name,
            tier_reason=fallback_reason,
            rows_put_first=rows_put_first,
            dropped=drop_reason,
        )

    def _run(self, admitted: AdmittedIndex, request: Query, k: int | None) -> QueryRun:
        index = admitted.index
        return QueryRun(
            request,
            # Stages reserve memory for k rows, so k is at most the number of tools.
            min(self.hit_count(k), max(len(index.tools), 1)),
            index.retrievers,
            index.rerankers,
            request.deadline,
            missing_stages=index.missing_stages,
            extra_rows=extra_row_count(index.copies),
            joint_search=index.joint_search,
            tools=index.built_tools,
        )

    def _ranked(
        self, admitted: AdmittedIndex, run: QueryRun, name: str, strategy: Strategy
    ) -> tuple[Ranking, str, str | None]:
        """The ranked permitted tools of a tier, the tier that ran, and why.

        Ties are in order of tool id, and copies behind their originals.
        """
        ranking, ran, reason = self._tiers.rank(run, name, strategy)
        index = admitted.index
        ranking = keep_permitted(ranking, admitted.mask, len(index.tools))
        ranking = harmless_first(ties_by_row(ranking), run.query.text, index.tools)
        return index.copies.behind_originals(ranking, admitted.mask), ran, reason

    def hit_count(self, k: int | None) -> int:
        """`k` after a check, or the default number of hits if it is None.

        Raises:
            RequestError: no whole number from 1.
        """
        if k is None:
            return self._k
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise RequestError(f"k: {k!r:.80}; a whole number of hits, at least 1")
        return k
