"""Explanation: why a tool is in an answer, or why it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..catalog_index import Index
from ..example_queries import ExampleQueries
from ..query import Ranking
from ..refusal import Refusal
from ..selection import StageResult
from .answer import RowsPutFirst
from .query_run import QueryRun


@dataclass(frozen=True, slots=True)
class Explanation:
    """The ranks of one tool for one query, and why it is offered or not.

    Args:
        query: the query.
        tool: id of the tool.
        tier: the tier that ran.
        tier_asked: the requested tier.
        tier_reason: why another tier ran; None if the requested one ran.
        k: number of hits of an answer.
        rank: rank of the tool in the full ranking, from 1; None if no stage found it.
        offered: whether it is among the first `k`, and not below the tier's threshold.
        stages: stage name to rank and score. A retriever ranks the tool among *all* tools; None if
            it does not match. Fusion and reranker are absent if they did not see it.
        reason: why it is offered or not, in one sentence.
        refusal: why it is denied, and what unlocks it; None if it is permitted.
        example_queries: the example queries that were searched with its definition; None if there
            are none.
    """

    query: str
    tool: str
    tier: str
    tier_asked: str
    tier_reason: str | None
    k: int
    rank: int | None
    offered: bool
    stages: Mapping[str, StageResult | None]
    reason: str
    refusal: Refusal | None = None
    example_queries: ExampleQueries | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "stages": {
                stage: None if place is None else place._asdict()
                for stage, place in self.stages.items()
            },
            "refusal": None if self.refusal is None else self.refusal.to_dict(),
            "example_queries": (
                None if self.example_queries is None else self.example_queries.to_dict()
            ),
        }


def explain(
    index: Index,
    run: QueryRun,
    ranking: Ranking,
    row: int,
    refusal: Refusal | None = None,
    *,
    tier: str,
    tier_asked: str,
    tier_reason: str | None,
    rows_put_first: RowsPutFirst,
    dropped: str | None = None,
) -> Explanation:
    """The explanation of a row after a run.

    Args:
        index: the catalog version that was searched.
        run: the finished run of the query.
        ranking: its full final ranking.
        row: row of the tool.
        refusal: why the tool is denied; None if it is permitted.
        tier: the tier that ran.
        tier_asked: the requested tier.
        tier_reason: why another tier ran; None if the requested one ran.
        rows_put_first: see `RowsPutFirst`.
        dropped: why the tier's threshold drops the tool; None if it does not.
    """
    stages: dict[str, StageResult | None] = dict(run.placements([row])[row])
    if refusal is None:
        for stage, retriever in run.retrievers.items():
            if stage in run.rankings and stage not in stages:
                full = retriever.search(run.query, len(index.tools))
                place = np.flatnonzero(full.rows == row)
                stages[stage] = (
                    StageResult(int(place[0]) + 1, float(full.scores[place[0]]))
                    if len(place)
                    else None
                )
    place = np.flatnonzero(ranking.rows == row)
    rank = int(place[0]) + 1 if len(place) else None
    if rank is None and len(run.rankings) == 1 and (only := next(iter(stages.values()), None)):
        # The ranking of a single retriever ends with the last row of the answer.
        rank = only.rank
    return Explanation(
        query=run.query.text,
        tool=index.tools[row].id,
        tier=tier,
        tier_asked=tier_asked,
        tier_reason=tier_reason,
        k=run.k,
        rank=rank,
        offered=rank is not None and rank <= run.k and dropped is None,
        stages=stages,
        reason=dropped or _reason(index, run, row, rank, stages, refusal, rows_put_first),
        refusal=refusal,
        example_queries=(
            index.example_queries.get(index.tools[row].id) if refusal is None else None
        ),
    )


def _reason(
    index: Index,
    run: QueryRun,
    row: int,
    rank: int | None,
    stages: Mapping[str, StageResult | None],
    refusal: Refusal | None,
    rows_put_first: RowsPutFirst,
) -> str:
    if refusal is not None:
        return f"denied: {refusal.reason}"
    if rank is not None and rank <= run.k:
        if row in rows_put_first.get("exact", ()):
            return "the request is exactly its name or id"
        if row in rows_put_first.get("literal", ()):
            return "the request has every word of its name"
    if rank is None:
        places_by_stage = [
            f"{stage} places it {place.rank} of {len(index.tools)}"
            if place
            else f"{stage} finds no term of the request in it"
            for stage, place in stages.items()
        ]
        return f"no stage proposed it: {'; '.join(places_by_stage) or 'no retriever ran'}"
    if rank <= run.k:
        return f"offered: {rank} of {run.k}"
    return f"out-ranked: {rank}, and the answer holds {run.k}"
