"""Gates for a catalog of one's own, from labelled requests to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from .decider import Decider
from .examples import Example
from .measurements import DEPTH
from .report import Report, measure_gate
from .tier import TierGate
from .training import calibrated, fit_gate

if TYPE_CHECKING:
    from ...catalog import Catalog
    from ...models import Encoder
    from ...retrieval.selection import Selection


class Searching(Protocol):
    """What requests are asked of: `catalog` names the tools, `search` finds them as an Engine."""

    @property
    def catalog(self) -> Catalog: ...  # noqa: D102
    def search(  # noqa: D102
        self,
        query: str,
        *,
        tier: str,
        k: int,
        allowed: Sequence[str] | None = None,
    ) -> Selection: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A labelled request: its text and the ids of the tools that serve it, none if none does."""

    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Gates and what they cost and keep.

    Args:
        decider: the gates.
        reports: tier to its figures, on requests the gate had not seen.
        start: tier to what its gate was made from: `bundled` (only probabilities and cuts are new)
            or `requests` (everything is).
        without: how many requests were asked again of the catalog without their tools' servers.
    """

    decider: Decider
    reports: dict[str, Report]
    start: dict[str, str]
    without: int


def calibrate(
    engine: Searching,
    requests: Sequence[Asked],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    base: Decider,
    alpha: float,
    lost: float,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Fit gates to labelled requests of a catalog.

    What the catalog cannot serve is had from what it can: each request is asked again of the
    catalog without the servers of its tools. Where a base gate fits the encoder, only its
    probabilities and cuts are made anew, which a few dozen requests suffice for.

    Args:
        engine: searches the catalog.
        requests: to it.
        tiers: names of the tiers to calibrate.
        encoder: the engine's, None where it has none.
        base: gates to start from.
        alpha: rate of right tools that the cut may miss.
        lost: rate of served requests that may be turned away.
        progress: called with the number of searches done since the last call.

    Raises:
        RequestError: too few requests.
    """
    fingerprint = None if encoder is None else encoder.fingerprint
    known = base.for_encoder(fingerprint)
    vectors = _vectors(encoder, known, requests)
    rest = [_without(engine.catalog, one.relevant) if one.relevant else () for one in requests]
    gates: dict[str, TierGate] = {}
    reports: dict[str, Report] = {}
    start: dict[str, str] = {}
    for tier in tiers:
        examples: list[Example] = []
        made: list[Example] = []
        for at, (one, others) in enumerate(zip(requests, rest, strict=True)):
            wording = None if vectors is None else float(vectors[at])
            found = engine.search(one.text, tier=tier, k=DEPTH)
            examples.append(Example.of(found, one.relevant, wording=wording, group=at))
            if others:
                found = engine.search(one.text, tier=tier, k=DEPTH, allowed=others)
                made.append(Example.of(found, (), wording=wording, group=at))
            if progress:
                progress(1)
        ready = known.gates.get(tier)
        dense = any(one.cosines is not None for one in examples)

        def fit(
            some: Sequence[Example],
            ready: TierGate | None = ready,
            dense: bool = dense,
        ) -> TierGate:
            if ready is not None:
                return calibrated(ready, some, alpha=alpha, lost=lost)
            return fit_gate(some, dense=dense, alpha=alpha, lost=lost)

        gates[tier] = fit([*examples, *made])
        reports[tier] = measure_gate(examples, made, fit)
        start[tier] = "requests" if ready is None else "bundled"
    origin = {"requests": len(requests), "alpha": alpha, "lost": lost, "start": start}
    decider = Decider(gates, known.wording, fingerprint, origin=origin)
    return Calibration(decider, reports, start, sum(map(bool, rest)))


def _vectors(
    encoder: Encoder | None, known: Decider, requests: Sequence[Asked]
) -> NDArray[np.float64] | None:
    """Log-odds of each request, by its vector, that it asks for a tool."""
    if encoder is None or known.wording is None:
        return None
    return known.wording(encoder.encode([one.text for one in requests], query=True))


def _without(catalog: Catalog, relevant: Sequence[str]) -> tuple[str, ...]:
    """Ids of the tools of other servers; a tool without a server is one by itself."""
    servers = {catalog.get(tool_id).server or tool_id for tool_id in relevant}
    return tuple(tool.id for tool in catalog if (tool.server or tool.id) not in servers)
