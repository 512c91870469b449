from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from shortlist.catalog import Tool
from shortlist.decision.calibration import Example
from shortlist.retrieval.selection import Hit, Selection, StageResult

TOOLS = [
    Tool(f"{verb}_{thing}", server, f"{verb} a {thing} of the {server}", {})
    for server, things in (("shop", ("order", "invoice")), ("garden", ("hose", "lamp")))
    for thing in things
    for verb in ("list", "create", "remove", "update", "share", "print")
]


def answer(
    query: str, scores: Sequence[float], *, tier: str = "hybrid", first: int = 0
) -> Selection:
    """An answer whose hits have these cosines, best first, and BM25 scores ten times as high."""
    hits = tuple(
        Hit(
            TOOLS[(first + at) % len(TOOLS)],
            at + 1,
            score,
            {"dense": StageResult(at + 1, score), "lexical": StageResult(at + 1, 10 * score)},
        )
        for at, score in enumerate(scores)
    )
    return Selection(query, hits, tier, tier)


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    """A tier in which a lead tells the right tool and a low best score tells that none is."""
    rng = np.random.default_rng(0)
    made = []
    for group in range(400):
        served = group % 2 == 0
        best = rng.uniform(0.5, 0.7) if served else rng.uniform(0.25, 0.5)
        lead = rng.uniform(0, 0.3) if served else rng.uniform(0, 0.1)
        place = int(rng.geometric(0.5) - 1) if served and lead < 0.1 else 0
        scores = [best, *np.sort(rng.uniform(0.1, best - lead, 11))[::-1]]
        found = answer(f"request {group}", scores, first=group)
        right = {found.hits[min(place, 11)].id} if served else set()
        made.append(
            Example.of(found, right, odds={"wording": 2.0 if served else -1.0}, group=group)
        )
    return made


@pytest.fixture(scope="session")
def made_answer() -> Callable[..., Selection]:
    return answer
