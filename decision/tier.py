"""The model of one tier: what an answer's measurements say, as probabilities, and where it cuts."""

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
    """A network with the calibration that makes its log-odds a probability.

    Args:
        network: fitted on one part of the examples.
        calibration: of its log-odds, fitted on the other; Platt, "Probabilistic Outputs for Support
            Vector Machines", 1999.
    """

    network: Network
    calibration: Logistic

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities, shape (n,) of values (n, m), or () of (m,)."""
        return sigmoid(self.calibration(self.network(values)[..., None]))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"network": self.network.to_dict(), "calibration": self.calibration.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(Network.from_dict(saved["network"]), Logistic.from_dict(saved["calibration"]))


@dataclass(frozen=True, slots=True)
class TierModel:
    """What a tier's answers are judged by.

    Args:
        fits: whether any tool serves a request, from what is measured of it and of its wording.
        right: whether a tool is right, from what is measured of it and of the request.
        abstain_below: probability that anything fits under which nothing is offered.
        keep_from: probability of being right from which a tool is kept.
        alpha: rate of right tools that the cut may miss; None where it cannot promise anything.
        lost: rate of served requests that may be turned away.
        dense: whether it reads cosines and vectors, and so fits one encoder only.
    """

    fits: Head
    right: Head
    abstain_below: float
    keep_from: float
    alpha: float | None
    lost: float
    dense: bool

    def fitting(self, measured: Measurements, wording: float | None) -> float:
        """Probability that any tool serves the request.

        Args:
            measured: of its answer.
            wording: log-odds, by its vector, that it asks for a tool; where it is not known the
                mean of the examples stands for it.
        """
        return float(self.fits(self.request_row(measured, wording)))

    def request_row(self, measured: Measurements, wording: float | None) -> NDArray[np.float64]:
        """What `fits` reads, shape (m,)."""
        if not self.dense:
            return measured.request
        return np.append(
            measured.request, self.fits.network.centre[-1] if wording is None else wording
        )

    def rightness(self, measured: Measurements) -> NDArray[np.float64]:
        """Probability of each tool of being right, shape (n,)."""
        return self.right(measured.joined())

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "dense": self.dense,
            "abstain_below": self.abstain_below,
            "keep_from": self.keep_from,
            "alpha": self.alpha,
            "lost": self.lost,
            "fits": self.fits.to_dict(),
            "right": self.right.to_dict(),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(
            fits=Head.from_dict(saved["fits"]),
            right=Head.from_dict(saved["right"]),
            abstain_below=float(saved["abstain_below"]),
            keep_from=float(saved["keep_from"]),
            alpha=saved["alpha"],
            lost=float(saved["lost"]),
            dense=bool(saved["dense"]),
        )
