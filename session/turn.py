"""What one turn of a conversation came to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..retrieval import Hit, Selection
from .active import Departure

#: Candidates an event names.
_CANDIDATES = 20


@dataclass(frozen=True, slots=True)
class Turn:
    """The tools for one turn.

    Args:
        number: of the turn in its session, from 1.
        queries: texts searched for, the request first, then it with its context, then its parts.
        selections: the engine's answer to each.
        hits: tools that serve the request, best first; none when abstaining.
        intents: parts of the request that got tools of their own; none when it is one.
        context: weight of what was said before, from 0 to 1.
        added: ids newly active, in order.
        active: ids of all active tools, in the order they came.
        left: tools that are active no longer, with the reason.
        changed: ids of active tools whose definition changed since they were offered last.
        abstained: whether nothing fits.
        reason: why it abstained, else None.
        tokens: cost of the active tools, None where nothing counts it.
        timings: milliseconds: `search` in the engine, `session` besides.
    """

    number: int
    queries: tuple[str, ...]
    selections: tuple[Selection, ...]
    hits: tuple[Hit, ...]
    intents: tuple[str, ...] = ()
    context: float = 0.0
    added: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[Departure, ...] = ()
    changed: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    tokens: int | None = None
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the tools that serve the request, best first."""
        return tuple(hit.id for hit in self.hits)

    @property
    def evicted(self) -> tuple[str, ...]:
        """Ids of the tools that are active no longer."""
        return tuple(departure.tool_id for departure in self.left)

    @property
    def event(self) -> dict[str, Any]:
        """The decision for a log, JSON-able, without a word of what was said."""
        first = self.selections[0] if self.selections else None
        request = self.queries[0] if self.queries else ""
        return {
            "turn": self.number,
            "query_sha256": hashlib.sha256(request.encode("utf-8", "replace")).hexdigest(),
            "searches": len(self.queries),
            "intents": len(self.intents) or 1,
            "context": round(self.context, 3),
            "tier": first.tier if first else None,
            "tier_reason": first.tier_reason if first else None,
            "catalog": first.catalog if first else None,
            "candidates": [
                {"id": hit.id, "score": round(hit.score, 6)} for hit in self.hits[:_CANDIDATES]
            ],
            "held_back": first.held_back.to_dict() if first else {},
            "added": list(self.added),
            "active": list(self.active),
            "left": [departure.to_dict() for departure in self.left],
            "changed": list(self.changed),
            "abstained": self.abstained,
            "reason": self.reason,
            "tokens": self.tokens,
            "timings": {stage: round(ms, 3) for stage, ms in self.timings.items()},
        }
