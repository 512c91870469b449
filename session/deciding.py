"""How many of the tools found are offered, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..models import Encoder
from ..retrieval import Hit, Selection
from .finding import Found


class Decided(Protocol):
    """What a decider says of one answer."""

    @property
    def hits(self) -> tuple[Hit, ...]: ...  # noqa: D102
    @property
    def fits(self) -> float | None: ...  # noqa: D102
    @property
    def abstained(self) -> bool: ...  # noqa: D102
    @property
    def reason(self) -> str | None: ...  # noqa: D102
    @property
    def cut(self) -> str: ...  # noqa: D102


class Decides(Protocol):
    """Judges answers, as `gating.decision.Decider` does."""

    def decide(  # noqa: D102
        self,
        selection: Selection,
        *,
        k: int | None = None,
        vector: NDArray[np.float32] | None = None,
    ) -> Decided: ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What is offered out of what was found.

    Args:
        hits: best first; none when abstaining.
        abstained: whether nothing fits.
        reason: why not.
        fits: probability that any tool serves the request, None where nothing judged it.
        cut: what decided how many are offered, None where nothing was found.
    """

    hits: tuple[Hit, ...]
    abstained: bool
    reason: str | None = None
    fits: float | None = None
    cut: str | None = None


def offer(
    found: Found, decider: Decides | None, k: int, *, cut: bool, encoder: Encoder | None
) -> Offer:
    """The tools to offer out of those found.

    What was found for the request as a whole is judged. Several intents get the places that each
    would need alone, so that a cut fitted to single requests does not starve the second.

    Args:
        found: what the turn's searches gave.
        decider: says how many tools are needed and whether any fits; `k` of them without one.
        k: tools at most.
        cut: whether the decider says how many tools are offered; else it only abstains.
        encoder: reads the wording of what is judged; None where the engine has none.
    """
    hits = found.merged.hits
    if not hits:
        return Offer((), True, "the search found no tool")
    first = f"the first {k}; nothing cuts"
    if decider is None:
        return Offer(hits[:k], False, cut=first)
    vector = None if encoder is None else encoder.encode([found.judged.query], query=True)[0]
    judged = decider.decide(found.judged, k=k, vector=vector)
    if judged.abstained:
        return Offer((), True, judged.reason, judged.fits, judged.cut)
    if not cut:
        return Offer(hits[:k], False, None, judged.fits, first)
    needed, why = max(1, len(judged.hits)), judged.cut
    if found.intents:
        parts = [decider.decide(selection, k=k) for selection in found.parts]
        needed = max(needed, sum(max(1, len(part.hits)) for part in parts))
        why = f"{needed} for {len(parts)} intents; for the request as one: {why}"
    return Offer(hits[: min(k, needed)], False, None, judged.fits, why)
