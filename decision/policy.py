"""When the decision is made, and with which calibration."""

from __future__ import annotations

from pathlib import Path

from ..retrieval.selection import Selection
from .decider import Decider, Decision
from .measurements import DEPTH

OFF = "off"
BUNDLED = "bundled"
MIN_TOOLS = 10
"""With fewer permitted tools there is no decision: the calibration had no smaller catalogs, and a
model can read so few tools itself."""


class DecisionPolicy:
    """Makes decisions for one engine, if its calibration permits it.

    Args:
        decider: the calibration; None for no decisions.
    """

    def __init__(self, decider: Decider | None) -> None:
        self.decider = decider

    @property
    def depth(self) -> int:
        """Number of hits that a decision needs."""
        return 1 if self.decider is None else DEPTH

    def decide(self, selection: Selection, *, permitted: int, k: int | None = None) -> Decision:
        """Decide about an answer.

        Args:
            selection: the answer.
            permitted: number of permitted tools.
            k: maximum number of tools to offer.
        """
        if self.decider is None:
            return Decision.unjudged(selection.hits, k, "the decision is off")
        if permitted < MIN_TOOLS:
            why = f"only {permitted} tools are permitted; fewer than {MIN_TOOLS} are not judged"
            return Decision.unjudged(selection.hits, k, why)
        return self.decider.decide(selection, k=k)


def policy_for(setting: str | Path, encoder: str | None) -> DecisionPolicy:
    """The policy of the setting `decision`, for an encoder.

    There is no decision for tiers whose scores come from another encoder than the calibration's;
    the answer says so.

    Args:
        setting: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        encoder: fingerprint of the engine's encoder; None if it has none.

    Raises:
        ConfigError: the file cannot be read.
    """
    if setting == OFF:
        return DecisionPolicy(None)
    decider = Decider.bundled() if setting == BUNDLED else Decider.load(setting)
    return DecisionPolicy(decider.for_encoder(encoder))
