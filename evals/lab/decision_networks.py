"""A network of one hidden layer in numpy: small enough to be trained in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .logistic import sigmoid

_BATCH = 256
_RATE = 3e-3


@dataclass(frozen=True, slots=True)
class Network:
    """A neural network: log-odds of "yes", from inputs of any scale.

    Args:
        centre: mean of each input where it was fitted, shape (m,).
        scale: standard deviation of each, shape (m,).
        weights: weights of the hidden units, shape (m, h).
        biases: biases of the hidden units, shape (h,).
        out: weight of each hidden unit, shape (h,).
        offset: added at the end.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    weights: NDArray[np.float64]
    biases: NDArray[np.float64]
    out: NDArray[np.float64]
    offset: float

    @classmethod
    def fit(
        cls,
        values: NDArray[np.float64],
        labels: NDArray[np.bool_],
        *,
        share: NDArray[np.float64] | None = None,
        hidden: int = 8,
        members: int = 3,
        epochs: int = 40,
        decay: float = 0.004,
        seed: int = 0,
    ) -> Self:
        """The mean of several networks, each fitted from another start; it is one network too.

        Args:
            values: shape (n, m).
            labels: shape (n,).
            share: weight of each row, shape (n,); 1 when absent.
            hidden: hidden units of each member.
            members: networks whose log-odds are averaged.
            epochs: passes over the rows.
            decay: L2 penalty of the weights.
            seed: seed of the initial weights and of the order of the rows.
        """
        centre, scale = values.mean(axis=0), values.std(axis=0)
        scale[scale < 1e-9] = 1.0
        inputs = ((values - centre) / scale).clip(-6, 6)
        counts = np.ones(len(values)) if share is None else share / share.mean()
        rng = np.random.default_rng(seed)
        parts = [
            _member(inputs, labels.astype(np.float64), counts, hidden, epochs, decay, rng)
            for _ in range(members)
        ]
        weights, biases, out, offsets = zip(*parts, strict=True)
        return cls(
            centre,
            scale,
            np.concatenate(weights, axis=1),
            np.concatenate(biases),
            np.concatenate(out) / members,
            float(np.mean(offsets)),
        )

    def __call__(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Log-odds, shape (n,) of values (n, m), or () of (m,)."""
        inputs = ((values - self.centre) / self.scale).clip(-6, 6)
        odds: NDArray[np.float64] = np.tanh(inputs @ self.weights + self.biases) @ self.out
        return odds + self.offset

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """A network from the result of `form_of`."""
        arrays = {name: np.array(saved[name], np.float64) for name in saved if name != "offset"}
        return cls(**arrays, offset=float(saved["offset"]))


def _member(
    inputs: NDArray[np.float64],
    labels: NDArray[np.float64],
    counts: NDArray[np.float64],
    hidden: int,
    epochs: int,
    decay: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """One network by Adam (Kingma and Ba 2015, its default decay rates), rate falling to 0."""
    width = inputs.shape[1]
    parts = [
        rng.normal(0, width**-0.5, (width, hidden)),
        np.zeros(hidden),
        rng.normal(0, hidden**-0.5, hidden),
        np.zeros(()),
    ]
    first = [np.zeros_like(part) for part in parts]
    second = [np.zeros_like(part) for part in parts]
    total = epochs * -(-len(inputs) // _BATCH)
    step = 0
    for _ in range(epochs):
        order = rng.permutation(len(inputs))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            step += 1
            rate = _RATE * (1 - (step - 1) / total)
            for at, gradient in enumerate(_gradients(parts, inputs, labels, counts, rows, decay)):
                first[at] = 0.9 * first[at] + 0.1 * gradient
                second[at] = 0.999 * second[at] + 0.001 * gradient**2
                moved = first[at] / (1 - 0.9**step)
                spread = np.sqrt(second[at] / (1 - 0.999**step)) + 1e-8
                parts[at] = parts[at] - rate * moved / spread
    weights, biases, out, offset = parts
    return weights, biases, out, offset


def _gradients(
    parts: list[NDArray[np.float64]],
    inputs: NDArray[np.float64],
    labels: NDArray[np.float64],
    counts: NDArray[np.float64],
    rows: NDArray[np.int64],
    decay: float,
) -> list[NDArray[np.float64]]:
    weights, biases, out, offset = parts
    units = np.tanh(inputs[rows] @ weights + biases)
    error = counts[rows] * (sigmoid(units @ out + offset) - labels[rows]) / len(rows)
    back = np.outer(error, out) * (1 - units**2)
    return [
        inputs[rows].T @ back + decay * weights,
        back.sum(axis=0),
        units.T @ error + decay * out,
        np.array(error.sum()),
    ]
