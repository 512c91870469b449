"""Measures the bundled decision on requests that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...decision import Decider
from ...decision.calibration import (
    Report,
    Searching,
    measure_fitted,
    odds_of_queries,
    ranked_examples,
)
from ...retrieval.usage import UsageEvent

if TYPE_CHECKING:
    from ...models import Encoder


def check_decision(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    rerankers: Mapping[str, str | None],
    base: Decider,
    k: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Report]:
    """Figures of a decision as it is, by tier.

    Args:
        engine: searches the catalog.
        requests: labelled queries that the models were not fitted to.
        tiers: names of the tiers to check; those without a model that fits are left out.
        encoder: encoder of the engine; None if it has none.
        rerankers: tier name to the name of its reranker; None for a tier without one.
        base: the models.
        k: number of hits that are offered at most.
        progress: called with the number of searches done since the last call.
    """
    usable = base.for_engine(None if encoder is None else encoder.fingerprint, rerankers)
    odds = odds_of_queries(encoder, usable, requests)
    return {
        tier: measure_fitted(
            list(ranked_examples(engine, requests, tier, odds, progress)),
            usable.tiers[tier],
            k=k,
        )
        for tier in tiers
        if tier in usable.tiers
    }
