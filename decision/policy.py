"""When answers are judged, and by which calibration."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..retrieval.selection import Selection
from .decider import Decider, Decision
from .measurements import DEPTH

OFF = "off"
BUNDLED = "bundled"
MIN_TOOLS = 10
"""Fewest permitted tools among which answers are judged: the calibration saw no smaller catalogs,
and few tools are soon read by the model itself."""


class DecisionPolicy:
    """Judges answers of one engine, where its calibration can.

    Args:
        decider: the calibration; None judges nothing.
        off: why nothing is judged where there is no decider.
    """

    def __init__(self, decider: Decider | None, off: str = "the decision is off") -> None:
        self.decider = decider
        self._off = off

    @property
    def depth(self) -> int:
        """Hits that a judgement wants to see."""
        return 1 if self.decider is None else DEPTH

    def decide(
        self,
        selection: Selection,
        *,
        permitted: int,
        k: int | None = None,
        vector: NDArray[np.float32] | None = None,
    ) -> Decision:
        """Judge an answer.

        Args:
            selection: the answer.
            permitted: number of tools the request may use.
            k: tools to offer at most.
            vector: the encoded request, shape (dim,).
        """
        if self.decider is None:
            return Decision.unjudged(selection.hits, k, self._off)
        if permitted < MIN_TOOLS:
            why = f"only {permitted} tools are permitted; fewer than {MIN_TOOLS} are not judged"
            return Decision.unjudged(selection.hits, k, why)
        return self.decider.decide(selection, k=k, vector=vector)


def policy_for(setting: str | Path, encoder: str | None) -> DecisionPolicy:
    """The policy that a setting names, bound to an encoder.

    Tiers whose scores come from another encoder than the one the calibration was fitted to are
    not judged; the answer says so.

    Args:
        setting: `bundled`, `off`, or a file that `shortlist calibrate` wrote.
        encoder: fingerprint of the engine's encoder; None where it has none.

    Raises:
        ConfigError: the file cannot be read.
    """
    if setting == OFF:
        return DecisionPolicy(None)
    decider = _bundled() if setting == BUNDLED else Decider.load(setting)
    return DecisionPolicy(decider.for_encoder(encoder))


@cache
def _bundled() -> Decider:
    return Decider.bundled()
