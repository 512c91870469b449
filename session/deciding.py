"""How many of the tools found are offered, or none."""

from __future__ import annotations

from typing import Protocol

from ..retrieval import Hit, Selection
from .finding import Found


class Decided(Protocol):
    """What a decider says of one answer."""

    @property
    def hits(self) -> tuple[Hit, ...]: ...  # noqa: D102
    @property
    def abstained(self) -> bool: ...  # noqa: D102
    @property
    def reason(self) -> str | None: ...  # noqa: D102


class Decides(Protocol):
    """Judges answers, as `gating.decision.Decider` does."""

    def decide(self, selection: Selection, *, k: int | None = None) -> Decided: ...  # noqa: D102


def offered(
    found: Found, decider: Decides | None, k: int, *, cut: bool = True
) -> tuple[tuple[Hit, ...], bool, str | None]:
    """The tools to offer out of those found.

    What was found for the request as a whole is judged. Several intents get the places that each
    would need alone, so that a cut fitted to single requests does not starve the second.

    Args:
        found: what the turn's searches gave.
        decider: says how many tools are needed and whether any fits; `k` of them without one.
        k: tools at most.
        cut: whether the decider says how many tools are offered; else it only abstains.

    Returns:
        The hits, whether nothing fits, and why not.
    """
    hits = found.merged.hits
    if decider is None or not hits:
        return hits[:k], not hits, None if hits else "the search found no tool"
    judged = decider.decide(found.judged, k=k)
    if judged.abstained:
        return (), True, judged.reason
    if not cut:
        return hits[:k], False, None
    needed = len(judged.hits)
    if found.intents:
        parts = (decider.decide(selection, k=k) for selection in found.parts)
        needed = max(needed, sum(max(1, len(part.hits)) for part in parts))
    return hits[: min(k, max(1, needed))], False, None
