"""Logistic regression, for few numbers (a calibration) and for many (a request's vector)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_ITERATIONS = 50
_TOLERANCE = 1e-7


@dataclass(frozen=True, slots=True)
class Logistic:
    """Log-odds as a weighted sum.

    Args:
        weights: shape (m,).
        offset: log-odds where every number is 0.
    """

    weights: NDArray[np.float64]
    offset: float

    @classmethod
    def fit(
        cls,
        values: NDArray[np.float64],
        labels: NDArray[np.bool_],
        *,
        share: NDArray[np.float64] | None = None,
        ridge: float = 1.0,
    ) -> Self:
        """The most probable weights under a normal prior, by Newton's method. Deterministic.

        Args:
            values: shape (n, m).
            labels: shape (n,).
            share: weight of each row, shape (n,); 1 when absent.
            ridge: precision of the prior of each weight; the offset has none.
        """
        rows = np.column_stack([values, np.ones(len(values))])
        counts = np.ones(len(rows)) if share is None else share
        penalty = np.full(rows.shape[1], ridge)
        penalty[-1] = 1e-6
        weights = np.zeros(rows.shape[1])
        for _ in range(_ITERATIONS):
            probability = sigmoid(rows @ weights)
            gradient = rows.T @ (counts * (probability - labels)) + penalty * weights
            curvature = (rows * (counts * probability * (1 - probability))[:, None]).T @ rows
            step = np.linalg.solve(curvature + np.diag(penalty + 1e-9), gradient)
            # Far steps overshoot where classes part cleanly.
            step /= max(1.0, float(np.abs(step).max()) / 5)
            weights -= step
            if np.abs(step).max() < _TOLERANCE:
                break
        return cls(weights[:-1], float(weights[-1]))

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Log-odds, shape (n,) of values (n, m), or () of (m,)."""
        odds: NDArray[np.float64] = values @ self.weights + self.offset
        return odds

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """A model from the result of `form_of`."""
        return cls(np.array(saved["weights"], np.float64), float(saved["offset"]))


def sigmoid(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of log-odds."""
    probability: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(odds, -40, 40)))
    return probability


def form_of(model: Any) -> Any:
    """JSON form of a model: dataclasses as tables, arrays as lists of five significant digits.

    That is more than the precision of a fit.
    """
    if isinstance(model, np.ndarray):
        digits = np.vectorize(lambda value: float(f"{value:.5g}"), otypes=[np.float64])
        return digits(model).tolist()
    if is_dataclass(model):
        return {one.name: form_of(getattr(model, one.name)) for one in fields(model)}
    return model
