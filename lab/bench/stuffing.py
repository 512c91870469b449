"""Measures how often tools stuffed with requests are hits of unrelated requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...catalog import Tool
from ...engine import Engine

STUFFED = 100
REQUESTS = 5
TOP = 10
NEAR = 0.5
"""Cosine of two requests from which a tool stuffed with one may well answer the other."""
SERVER = "stuffed"
_FEWEST = 10


@dataclass(frozen=True, slots=True)
class Stuffing:
    """Places of stuffed tools in one tier.

    Args:
        tier: that searched.
        tools: in the catalog, without the stuffed ones.
        stuffed: tools that hold `REQUESTS` requests each.
        queries: requests asked, none of which stands in a stuffed tool.
        reached: share of them with an unrelated stuffed tool among the first `TOP`.
        first: share of them with one in first place.
    """

    tier: str
    tools: int
    stuffed: int
    queries: int
    reached: float
    first: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "tier": self.tier,
            "tools": self.tools,
            "stuffed": self.stuffed,
            "requests_each": REQUESTS,
            "queries": self.queries,
            "reached": round(self.reached, 4),
            "first": round(self.first, 4),
        }


def stuffing(folder: Path, queries: Sequence[str], *, seed: int = 0) -> list[Stuffing]:
    """Every tier over a saved index to which `STUFFED` stuffed tools are added.

    Half of the queries are stuffed into tools, each as often as it takes; the others are asked. A
    stuffed tool is unrelated to a query if no request in it is near the query. Nothing is
    quarantined.

    Args:
        folder: folder of the index; one without vectors measures nothing.
        queries: texts; fewer than ten measure nothing.
        seed: random seed of the split and the draws.
    """
    if len(queries) < _FEWEST:
        return []
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(queries))
    half = len(queries) // 2
    asked = [queries[i] for i in order[:half]]
    requests = [queries[i] for i in order[half:]]
    engine = Engine.open(folder, trust={"scan": False})
    encoder, honest = engine.view().admission.index.encoder, len(engine.catalog)
    if encoder is None:
        return []
    tools, drawn = stuffed_tools(requests, seed=seed), _drawn(len(requests), seed)
    cosines = encoder.encode(asked, query=True) @ encoder.encode(requests, query=True).T
    near = {
        tool.id: cosines[:, places].max(axis=1) >= NEAR
        for tool, places in zip(tools, drawn, strict=True)
    }
    engine.replace([*engine.catalog, *tools])
    found = []
    for tier in engine.tiers:
        ranks = [
            [rank for rank, one in enumerate(ids) if one in near and not near[one][number]]
            for number, ids in enumerate(
                engine.search(query, tier=tier, k=TOP).ids for query in asked
            )
        ]
        reached, first = sum(map(bool, ranks)), sum(0 in one for one in ranks)
        count = len(asked)
        found.append(Stuffing(tier, honest, STUFFED, count, reached / count, first / count))
    return found


def stuffed_tools(requests: Sequence[str], *, seed: int = 0) -> list[Tool]:
    """Tools whose descriptions are `REQUESTS` requests each.

    Args:
        requests: drawn from, each tool's without repetition.
        seed: random seed of the draws.
    """
    return [
        Tool(f"assistant_{number}", SERVER, " ".join(_sentence(requests[i]) for i in places))
        for number, places in enumerate(_drawn(len(requests), seed))
    ]


def _drawn(count: int, seed: int) -> list[list[int]]:
    """For each stuffed tool the places of its requests, among so many."""
    generator = np.random.default_rng(seed)
    each = min(REQUESTS, count)
    return [generator.choice(count, each, replace=False).tolist() for _ in range(STUFFED)]


def _sentence(request: str) -> str:
    text = request.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."
