"""What one turn of a conversation came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..retrieval import Hit, Selection
from .active import Departure


@dataclass(frozen=True, slots=True)
class Turn:
    """The tools for one turn.

    Args:
        number: of the turn in its session, from 1.
        queries: texts searched for, the request first, then it with its context, then its parts.
        selections: the engine's answer to each.
        hits: tools that serve the request, best first; none when abstaining.
        ranked: all tools found, best first, of which `hits` are offered.
        called: id of the tool whose answer was read, None where the user spoke.
        intents: parts of the request that got tools of their own; none when it is one.
        context: weight of what was said before, from 0 to 1.
        added: ids newly active, in order.
        active: ids of all active tools, in the order they came.
        left: tools that are active no longer, with the reason.
        changed: ids of active tools whose definition changed since they were offered last.
        abstained: whether nothing fits.
        reason: why it abstained, else None.
        fits: probability that any tool serves the request, None where nothing judged it.
        cut: what decided how many tools are offered, None where nothing was found.
        tokens: cost of the active tools, None where nothing counts it.
        timings: milliseconds: `search` in the engine, `session` besides.
    """

    number: int
    queries: tuple[str, ...]
    selections: tuple[Selection, ...]
    hits: tuple[Hit, ...]
    ranked: tuple[Hit, ...] = ()
    called: str | None = None
    intents: tuple[str, ...] = ()
    context: float = 0.0
    added: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    left: tuple[Departure, ...] = ()
    changed: tuple[str, ...] = ()
    abstained: bool = False
    reason: str | None = None
    fits: float | None = None
    cut: str | None = None
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
