"""Calibrates the decision to a catalog, from labelled queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..retrieval.usage import UsageEvent
from .decider import Decider
from .examples import Example
from .measurements import DEPTH
from .report import Report, cross_validate
from .tier import TierModel
from .training import calibrated, fit_tier

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..models import Encoder
    from ..retrieval.selection import Selection


class Searching(Protocol):
    """An engine, or an object with the same search methods."""

    @property
    def catalog(self) -> Catalog: ...  # noqa: D102
    def view(self, *, allowed: Sequence[str] | None = None) -> SearchingView: ...  # noqa: D102


class SearchingView(Protocol):
    """A view, or an object with the same search methods."""

    def search(self, query: str, *, tier: str, k: int) -> Selection: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fitted models with their measured figures.

    Args:
        decider: the models.
        reports: tier to its figures, on queries that were not used for fitting.
        start: tier to the origin of its model: `bundled` (only probabilities and cuts are new) or
            `requests` (all is fitted).
        without: number of queries searched again without the servers of their tools.
    """

    decider: Decider
    reports: dict[str, Report]
    start: dict[str, str]
    without: int


def calibrate(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    base: Decider,
    alpha: float,
    lost: float,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Fit models to labelled queries for a catalog.

    Negative examples are the same queries with the servers of their tools removed. If a base model
        fits the encoder, only its probabilities and cuts are fitted again. A few dozen queries are
        enough for that.

    Args:
        engine: searches the catalog.
        requests: labelled queries.
        tiers: names of the tiers to calibrate.
        encoder: encoder of the engine; None if it has none.
        base: models to start from.
        alpha: share of right tools that the cut may miss, 0 to 1.
        lost: share of queries with a right tool on which it may abstain, 0 to 1.
        progress: called with the number of searches done since the last call.

    Raises:
        RequestError: there are too few queries.
    """
    fingerprint = None if encoder is None else encoder.fingerprint
    known = base.for_encoder(fingerprint)
    wording = wording_odds(encoder, known, requests)
    rest = [_without(engine.catalog, one.relevant) if one.relevant else () for one in requests]
    models: dict[str, TierModel] = {}
    reports: dict[str, Report] = {}
    start: dict[str, str] = {}
    for tier in tiers:
        examples = list(ranked_examples(engine, requests, tier, wording, progress))
        made = list(_unserved(engine, requests, tier, wording, rest))
        ready = known.tiers.get(tier)
        dense = any(one.dense for one in examples)

        def fit(
            some: Sequence[Example],
            ready: TierModel | None = ready,
            dense: bool = dense,
        ) -> TierModel:
            if ready is not None:
                return calibrated(ready, some, alpha=alpha, lost=lost)
            return fit_tier(some, dense=dense, alpha=alpha, lost=lost)

        models[tier] = fit([*examples, *made])
        reports[tier] = cross_validate(examples, made, fit)
        start[tier] = "requests" if ready is None else "bundled"
    origin = {"requests": len(requests), "alpha": alpha, "lost": lost, "start": start}
    decider = Decider(models, known.wording, fingerprint, origin=origin)
    return Calibration(decider, reports, start, sum(map(bool, rest)))


def ranked_examples(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    wording: Sequence[float | None],
    progress: Callable[[int], None] | None,
) -> Iterator[Example]:
    """The results of a tier for labelled queries.

    Args:
        engine: searches the catalog.
        requests: labelled queries.
        tier: name of the tier.
        wording: log-odds of each query that it asks for a tool; None if unknown.
        progress: called with 1 after each search.
    """
    for at, one in enumerate(requests):
        found = engine.view().search(one.query, tier=tier, k=DEPTH)
        yield Example.of(found, one.relevant, wording=wording[at], group=at)
        if progress:
            progress(1)


def _unserved(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tier: str,
    wording: Sequence[float | None],
    rest: Sequence[tuple[str, ...]],
) -> Iterator[Example]:
    """The queries, searched in the catalog without the servers of their tools."""
    for at, (one, others) in enumerate(zip(requests, rest, strict=True)):
        if others:
            found = engine.view(allowed=others).search(one.query, tier=tier, k=DEPTH)
            yield Example.of(found, (), wording=wording[at], group=at)


def wording_odds(
    encoder: Encoder | None, known: Decider, requests: Sequence[UsageEvent]
) -> list[float | None]:
    """Log-odds of each query, from its vector, that it asks for a tool; None if unknown."""
    if encoder is None or known.wording is None:
        return [None] * len(requests)
    vectors = encoder.encode([one.query for one in requests], query=True)
    return [float(odds) for odds in known.wording(vectors)]


def _without(catalog: Catalog, relevant: Sequence[str]) -> tuple[str, ...]:
    """Ids of the tools of other servers. Each tool without a server counts as one server."""
    servers = {catalog.get(tool_id).server or tool_id for tool_id in relevant}
    return tuple(tool.id for tool in catalog if (tool.server or tool.id) not in servers)
