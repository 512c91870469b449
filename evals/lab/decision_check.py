"""Measures the bundled decision on requests that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...decision import Decider
from ...decision.calibration import Searching, ranked_examples, wording_odds
from ...decision.report import Report, measure_fitted
from ...retrieval.usage import UsageEvent
from .cut_splits import CutRow, cut_rates

if TYPE_CHECKING:
    from ...models import Encoder


@dataclass(frozen=True, slots=True)
class Checked:
    """Figures of one tier.

    Args:
        report: figures of the abstention and the cut.
        cuts: cuts that were fitted to one half of the served requests and measured on the other.
    """

    report: Report
    cuts: tuple[CutRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {**asdict(self.report), "cuts": [asdict(row) for row in self.cuts]}


def check_decision(
    engine: Searching,
    requests: Sequence[UsageEvent],
    tiers: Sequence[str],
    *,
    encoder: Encoder | None,
    base: Decider,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Checked]:
    """Figures of a decision as it is, by tier.

    Args:
        engine: searches the catalog.
        requests: to it, which the models were not fitted to.
        tiers: names of the tiers to check; those without a model that fits are left out.
        encoder: the engine's, None where it has none.
        base: the models.
        progress: called with the number of searches done since the last call.
    """
    known = base.for_encoder(None if encoder is None else encoder.fingerprint)
    wording = wording_odds(encoder, known, requests)
    found = {}
    for tier in (name for name in tiers if name in known.tiers):
        model = known.tiers[tier]
        examples = list(ranked_examples(engine, requests, tier, wording, progress))
        found[tier] = Checked(measure_fitted(examples, model), tuple(cut_rates(model, examples)))
    return found
