"""The decision: probabilities of hits, how many to offer, and when to abstain."""

from __future__ import annotations

from .decider import Decider, Decision, Judged
from .tier import TierModel

__all__ = ["Decider", "Decision", "Judged", "TierModel"]
