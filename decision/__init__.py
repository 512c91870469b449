"""The decision: whether any tool fits a query, and the calibration of the tiers."""

from __future__ import annotations

from .decider import Decider, Decision, TierModel

__all__ = ["Decider", "Decision", "TierModel"]
