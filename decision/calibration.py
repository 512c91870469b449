"""The decision calibrated to a catalog, from labelled requests to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..retrieval.usage import Event
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
    """What requests are asked of: an engine, or what answers like one."""

    @property
    def catalog(self) -> Catalog: ...  # noqa: D102
    def view(self, *, allowed: Sequence[str] | None = None) -> SearchingView: ...  # noqa: D102


class SearchingView(Protocol):
    """What a permitted part of the catalog is searched through."""

    def search(self, query: str, *, tier: str, k: int) -> Selection: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Calibration:
    """Models and what they cost and keep.

    Args:
        decider: the models.
        reports: tier to its figures, on requests the model had not seen.
        start: tier to what its model was made from: `bundled` (only probabilities and cuts are new)
            or `requests` (everything is).
        without: how many requests were asked again of the catalog without their tools' servers.
    """

    decider: Decider
    reports: dict[str, Report]
    start: dict[str, str]
    without: int


def calibrate(
    engine: Searching,
    requests: Sequence[Event],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    base: Decider,
    alpha: float,
    lost: float,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Fit models to labelled requests of a catalog.

    Negative examples come from the same requests: each is asked again with the servers of its tools
    removed. Where a base model fits the encoder, only its
    probabilities and cuts are made anew, which a few dozen requests suffice for.

    Args:
        engine: searches the catalog.
        requests: to it.
        tiers: names of the tiers to calibrate.
        encoder: the engine's, None where it has none.
        base: models to start from.
        alpha: rate of right tools that the cut may miss.
        lost: rate of served requests that may be turned away.
        progress: called with the number of searches done since the last call.

    Raises:
        RequestError: too few requests.
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
    requests: Sequence[Event],
    tier: str,
    wording: Sequence[float | None],
    progress: Callable[[int], None] | None,
) -> Iterator[Example]:
    """The answers of a tier to labelled requests.

    Args:
        engine: searches the catalog.
        requests: to it.
        tier: its name.
        wording: log-odds of each request that it asks for a tool; None where unknown.
        progress: called with 1 after each search.
    """
    for at, one in enumerate(requests):
        found = engine.view().search(one.query, tier=tier, k=DEPTH)
        yield Example.of(found, one.relevant, wording=wording[at], group=at)
        if progress:
            progress(1)


def _unserved(
    engine: Searching,
    requests: Sequence[Event],
    tier: str,
    wording: Sequence[float | None],
    rest: Sequence[tuple[str, ...]],
) -> Iterator[Example]:
    """The requests asked of what is left without their tools' servers, if anything is."""
    for at, (one, others) in enumerate(zip(requests, rest, strict=True)):
        if others:
            found = engine.view(allowed=others).search(one.query, tier=tier, k=DEPTH)
            yield Example.of(found, (), wording=wording[at], group=at)


def wording_odds(
    encoder: Encoder | None, known: Decider, requests: Sequence[Event]
) -> list[float | None]:
    """Log-odds of each request, by its vector, that it asks for a tool; None where unknown."""
    if encoder is None or known.wording is None:
        return [None] * len(requests)
    vectors = encoder.encode([one.query for one in requests], query=True)
    return [float(odds) for odds in known.wording(vectors)]


def _without(catalog: Catalog, relevant: Sequence[str]) -> tuple[str, ...]:
    """Ids of the tools of other servers; a tool without a server is one by itself."""
    servers = {catalog.get(tool_id).server or tool_id for tool_id in relevant}
    return tuple(tool.id for tool in catalog if (tool.server or tool.id) not in servers)
