"""Classifier: log-odds of "yes" from a row of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_ITERATIONS = 50
_TOLERANCE = 1e-7
#: Standard deviations from the mean at which an input is clipped.
_MAX_DEVIATIONS = 6.0
#: Significant digits of a saved number: more than the precision of a fit.
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Classifier:
    """A logistic model, or a neural network with one hidden layer.

    The inputs are standardised. The log-odds are a weighted sum of the inputs or, in a network, of
    the hidden units.

    Args:
        centre: mean of each input in the training data, shape (m,).
        scale: standard deviation of each input there, shape (m,).
        weights: weight of each input, shape (m,); in a network, of each hidden unit, shape (h,).
        offset: added to the sum.
        hidden: weights of the hidden units, shape (m, h); None in a logistic model.
        biases: biases of the hidden units, shape (h,); None in a logistic model.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]
    offset: float
    hidden: NDArray[np.float64] | None = None
    biases: NDArray[np.float64] | None = None

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Log-odds, shape (n,) of values (n, m), or () of (m,)."""
        units = standardised(values, self.centre, self.scale)
        if self.hidden is not None and self.biases is not None:
            units = np.tanh(units @ self.hidden + self.biases)
        odds: NDArray[np.float64] = units @ self.weights + self.offset
        return odds

    @classmethod
    def fit(
        cls, values: NDArray[np.float64], labels: NDArray[np.bool_], *, ridge: float = 1.0
    ) -> Self:
        """A logistic model with the most probable weights under a normal prior.

        Newton's method; deterministic.

        Args:
            values: shape (n, m).
            labels: shape (n,), with both values.
            ridge: precision of the prior of each weight; the offset has none.
        """
        centre, scale = spread(values)
        inputs = np.column_stack([standardised(values, centre, scale), np.ones(len(values))])
        penalty = np.full(inputs.shape[1], ridge)
        penalty[-1] = 1e-6
        weights = np.zeros(inputs.shape[1])
        for _ in range(_ITERATIONS):
            probability = sigmoid(inputs @ weights)
            gradient = inputs.T @ (probability - labels) + penalty * weights
            curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs
            step = np.linalg.solve(curvature + np.diag(penalty + 1e-9), gradient)
            # Long steps overshoot where the two classes are cleanly separated.
            step /= max(1.0, float(np.abs(step).max()) / 5)
            weights -= step
            if np.abs(step).max() < _TOLERANCE:
                break
        return cls(centre, scale, weights[:-1], float(weights[-1]))

    def to_dict(self) -> dict[str, Any]:
        """JSON form; a logistic model has no `hidden` and no `biases`."""
        saved: dict[str, Any] = {
            "centre": _rounded(self.centre),
            "scale": _rounded(self.scale),
            "weights": _rounded(self.weights),
            "offset": self.offset,
        }
        if self.hidden is not None and self.biases is not None:
            saved |= {"hidden": _rounded(self.hidden), "biases": _rounded(self.biases)}
        return saved

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """A classifier from the result of `to_dict`.

        Raises:
            KeyError, TypeError, ValueError: it is no such result, or its shapes do not fit.
        """
        classifier = cls(
            centre=np.array(saved["centre"], np.float64),
            scale=np.array(saved["scale"], np.float64),
            weights=np.array(saved["weights"], np.float64),
            offset=float(saved["offset"]),
            hidden=np.array(saved["hidden"], np.float64) if "hidden" in saved else None,
            biases=np.array(saved["biases"], np.float64) if "hidden" in saved else None,
        )
        if classifier(classifier.centre).shape != ():
            raise ValueError("the classifier's shapes do not fit")
        return classifier


def standardised(
    values: NDArray[Any], centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values in standard deviations from the mean, clipped where they are far from it."""
    return np.asarray((values - centre) / scale, np.float64).clip(-_MAX_DEVIATIONS, _MAX_DEVIATIONS)


def spread(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column, each shape (m,); 1 for a constant column."""
    scale = values.std(axis=0)
    return values.mean(axis=0), np.where(scale < 1e-9, 1.0, scale)


def sigmoid(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of log-odds."""
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(odds, -40, 40)))
    return probability


def _rounded(values: NDArray[np.float64]) -> Any:
    digits = np.vectorize(lambda value: float(f"{value:.{_DIGITS}g}"), otypes=[np.float64])
    return digits(values).tolist()
