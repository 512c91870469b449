"""How sure an answer is: probabilities, a cut that keeps a promise, and when to offer nothing."""

from __future__ import annotations

from .decider import Decider, Decision, Judged
from .tier import TierModel

__all__ = ["Decider", "Decision", "Judged", "TierModel"]
