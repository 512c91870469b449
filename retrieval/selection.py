"""The result of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from .refusal import Denials


class StageResult(NamedTuple):
    """The rank and score of a tool in one stage.

    Args:
        rank: rank, from 1.
        score: score, in the units of the stage.
    """

    rank: int
    score: float


_SHOWN = 3
"""Hits in the short form of a selection."""
NEAREST_HITS = 3
"""Hits that an answer that abstained names at most."""


class Hit(NamedTuple):
    """One tool that a search found.

    Args:
        tool: its definition in the catalog version that was searched.
        rank: rank in the answer, from 1.
        score: score of the last stage that scored it, in the units of that stage.
        stages: stage name to rank and score; without stages that did not see the tool.
        example_sources: sources of the example queries that were searched with the definition; see
            `docs/enrichment.md`.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> [hit] = engine.search("unpaid invoices")
        >>> hit.rank, hit.id, list(hit.stages)
        (1, 'billing/list_invoices', ['lexical'])
    """

    tool: Tool
    rank: int
    score: float
    stages: Mapping[str, StageResult]
    example_sources: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Hit({self.id!r}, rank {self.rank}, score {self.score:.4g})"

    @property
    def id(self) -> str:
        """The tool's id."""
        return self.tool.id

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without the schema."""
        form: dict[str, Any] = {
            "id": self.id,
            "rank": self.rank,
            "score": self.score,
            "description": self.tool.description,
            "stages": {name: placement._asdict() for name, placement in self.stages.items()},
        }
        if self.example_sources:
            form["example_sources"] = list(self.example_sources)
        return form


@dataclass(frozen=True, slots=True)
class VoterFailure:
    """A vote of a server that does not count.

    Args:
        server: name of the server.
        reason: why the vote does not count, never text from the server.
        tool_id: the tool of the vote, if there is one.
        quote: the server's text, shortened to one line. Only for operators, in no JSON form.
    """

    server: str
    reason: str
    tool_id: str | None = None
    quote: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"server": self.server, "reason": self.reason, "tool": self.tool_id}


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of a search: hits, the tier that ran, times, and denied tools.

    Args:
        query: the query, cut to the length that was searched.
        hits: best first.
        tier: the tier that ran; with `in part` or `without reranker` if its reranker had no time
            for all candidates, or for any.
        tier_asked: the requested tier.
        tier_reason: why another tier ran; None if the requested one ran.
        timings: milliseconds per stage, in the order they ran.
        total_ms: milliseconds from call to answer.
        catalog: fingerprint of the catalog version that was searched.
        denied: the denied tools with the reasons, each made when it is read.
        voter_failures: votes of servers that do not count.
        abstained: whether there are no hits because no tool fits, by the decision or because all
            were dropped.
        reason: why it abstained, or why there was no decision; otherwise None.
        fits: probability that any tool fits the query; None without a decision.
        nearest: the best hits of an answer that abstained, at most three, for a model that decides
            itself.
        unmatched: entries of the caller's `allowed` that match no tool of the catalog.
        vector: embedding of the query, shape (dim,); None if no stage needed it.
        pending: number of tools that had static vectors, as the encoder has not read them yet; see
            `docs/speed.md`.
        threshold: score below which the tier drops hits; None if it has no threshold.
        dropped: hits that the threshold dropped, best first.

    Example:
        >>> from shortlist import Engine, Tool
        >>> engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
        >>> selection = engine.search("list the invoices")
        >>> selection.ids, selection.tier, len(selection)
        (('billing/list_invoices',), 'lexical', 1)
    """

    query: str
    hits: tuple[Hit, ...]
    tier: str
    tier_asked: str
    tier_reason: str | None = None
    timings: Mapping[str, float] = field(default_factory=dict)
    total_ms: float = 0.0
    catalog: str = ""
    denied: Denials = field(default_factory=Denials, compare=False)
    voter_failures: tuple[VoterFailure, ...] = ()
    abstained: bool = False
    reason: str | None = None
    fits: float | None = None
    nearest: tuple[Hit, ...] = ()
    unmatched: tuple[str, ...] = ()
    vector: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    pending: int = 0
    threshold: float | None = None
    dropped: tuple[Hit, ...] = ()

    def __repr__(self) -> str:
        tools = ", ".join(self.ids[:_SHOWN]) or self.reason or "no tool"
        more = ", ..." if len(self.hits) > _SHOWN else ""
        return f"Selection({self.query!r:.80}, {self.tier}, {len(self.hits)} hits: {tools}{more})"

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the hits, best first."""
        return tuple(hit.id for hit in self.hits)

    @property
    def hits_and_dropped(self) -> tuple[Hit, ...]:
        """All hits that were ranked: those of the answer, then those that were dropped."""
        return self.hits + self.dropped

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the number of denied tools and the nearest five."""
        return {
            "query": self.query,
            "tier": self.tier,
            "tier_asked": self.tier_asked,
            "tier_reason": self.tier_reason,
            "total_ms": round(self.total_ms, 3),
            "timings": {stage: round(ms, 3) for stage, ms in self.timings.items()},
            "catalog": self.catalog,
            "hits": [hit.to_dict() for hit in self.hits],
            "denied": self.denied.to_dict(),
            "abstained": self.abstained,
            "reason": self.reason,
            "fits": self.fits,
            "nearest": [hit.id for hit in self.nearest],
            "threshold": self.threshold,
            "dropped": [{"id": hit.id, "score": hit.score} for hit in self.dropped],
            "pending": self.pending,
            "unmatched": list(self.unmatched),
            "voter_failures": [failure.to_dict() for failure in self.voter_failures],
        }
