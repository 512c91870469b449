"""The failed queries of a tier, with the answer and the ranks of the missing tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .runner import QueryOutcome

if TYPE_CHECKING:
    from ..engine import Engine


@dataclass(frozen=True, slots=True)
class MissedTool:
    """A relevant tool that was not returned.

    Args:
        id: the tool.
        rank: rank in the full ranking of the tier; None if no stage found it.
        stages: stage to its rank; None if the stage does not match it.
        reason: why it was not returned, in one sentence.
    """

    id: str
    rank: int | None
    stages: dict[str, int | None]
    reason: str


@dataclass(frozen=True, slots=True)
class Miss:
    """A failed query.

    Args:
        outcome: the query and its answer.
        missing: each relevant tool that was not returned; empty if no tool fits the query, which
            then should have had no answer.
    """

    outcome: QueryOutcome
    missing: tuple[MissedTool, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        query = self.outcome.query
        return {
            "source": query.source,
            "row": query.row,
            "query": query.text,
            "relevant": list(query.relevant),
            "returned": list(self.outcome.answer.ids),
            "missing": [asdict(tool) for tool in self.missing],
        } | ({} if self.outcome.refused is None else {"refused": self.outcome.refused})

    def __str__(self) -> str:
        query, returned = self.outcome.query, ", ".join(self.outcome.answer.ids) or "nothing"
        lines = [f"{query.source}, row {query.row}: {query.text}", f"  returned {returned}"]
        if self.outcome.refused is not None:
            lines.append(f"  refused: {self.outcome.refused}")
        elif not self.missing:
            lines.append("  no tool serves it: nothing should have been returned")
        for tool in self.missing:
            placed = ", ".join(
                f"{stage} {'unmatched' if rank is None else rank}"
                for stage, rank in tool.stages.items()
            )
            lines.append(f"  missing {tool.id} ({placed}): {tool.reason}")
        return "\n".join(lines)


def misses(
    engine: Engine,
    tier: str,
    outcomes: Sequence[QueryOutcome],
    *,
    k: int,
    limit_to_pool: bool = False,
) -> list[Miss]:
    """Explain every failed outcome of a tier, in the order of the queries.

    Args:
        engine: the engine that answered.
        tier: the requested tier.
        outcomes: outcomes of that tier.
        k: number of requested tools.
        limit_to_pool: whether each query was limited to its own pool.
    """
    explained_misses = []
    for outcome in outcomes:
        if not outcome.failed:
            continue
        query = outcome.query
        relevant_ids = [] if outcome.refused is not None else query.relevant
        missed_tools = []
        for tool_id in relevant_ids:
            if tool_id in outcome.answer.ids:
                continue
            allowed = query.pool if limit_to_pool else None
            explanation = engine.view(allowed=allowed).explain(query.text, tool_id, tier=tier, k=k)
            stages = {
                stage: None if placement is None else placement.rank
                for stage, placement in explanation.stages.items()
            }
            missed_tools.append(MissedTool(tool_id, explanation.rank, stages, explanation.reason))
        explained_misses.append(Miss(outcome, tuple(missed_tools)))
    return explained_misses
