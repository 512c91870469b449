"""The model of one tier: probabilities from an answer's measurements, and the cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .logistic import Logistic, sigmoid
from .measurements import Measurements
from .network import Network


@dataclass(frozen=True, slots=True)
class Head:
    """A network, and the calibration from its log-odds to a probability.

    Args:
        network: network fitted on one part of the examples.
        calibration: calibration of its log-odds, fitted on the other part; Platt, "Probabilistic
            Outputs for Support Vector Machines", 1999.
    """

    network: Network
    calibration: Logistic

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, shape (n,) of values (n, m), or () of (m,)."""
        return sigmoid(self.calibration(self.network(values)[..., None]))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """What `form_of` gave."""
        return cls(Network.from_dict(saved["network"]), Logistic.from_dict(saved["calibration"]))


@dataclass(frozen=True, slots=True)
class TierModel:
    """The decision model of a tier.

    Args:
        fits: model for whether any tool fits a query, from measurements of the answer and the
            wording.
        right: model for whether a tool is right, from measurements of the tool and the query.
        abstain_below: it abstains if the probability that any tool fits is lower.
        keep_from: a tool is kept if its probability of being right is at least this.
        alpha: share of right tools that the cut may miss; None without a guarantee.
        lost: share of queries with a right tool on which it may abstain.
        dense: whether it uses cosines and vectors, and so fits only one encoder.
    """

    fits: Head
    right: Head
    abstain_below: float
    keep_from: float
    alpha: float | None
    lost: float
    dense: bool

    def fitting(self, measured: Measurements, wording: float | None) -> float:
        """Probability that any tool fits the query.

        Args:
            measured: measurements of the answer.
            wording: log-odds, from its vector, that the query asks for a tool; the mean of the
                examples if unknown.
        """
        return float(self.fits(self.request_row(measured, wording)))

    def request_row(self, measured: Measurements, wording: float | None) -> NDArray[np.float64]:
        """The inputs of `fits`, shape (m,)."""
        if not self.dense:
            return measured.request
        return np.append(
            measured.request, self.fits.network.centre[-1] if wording is None else wording
        )

    def rightness(self, measured: Measurements) -> NDArray[np.float64]:
        """Probability of each tool of being right, shape (n,)."""
        return self.right(measured.joined())

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """What `form_of` gave."""
        return cls(
            fits=Head.from_dict(saved["fits"]),
            right=Head.from_dict(saved["right"]),
            abstain_below=float(saved["abstain_below"]),
            keep_from=float(saved["keep_from"]),
            alpha=saved["alpha"],
            lost=float(saved["lost"]),
            dense=bool(saved["dense"]),
        )
