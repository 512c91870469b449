"""Trains the networks of the bundled decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...decision import TierModel
from ...decision.calibration import Example, check_parts, lowest_kept, parts_of
from ...decision.classifier import Classifier, sigmoid, spread, standardised
from ...decision.decider import WORDING
from ...decision.measurements import MEASUREMENTS

_BATCH = 256
_RATE = 3e-3
#: Parts, each calibrated on by what the others fitted.
_FOLDS = 4
#: Weight of a served request beyond ASCII: they are few, and encoders read them worst, so that they
#: would be turned away first.
_BEYOND_ASCII = 3.0


def fit_network_tier(
    examples: Sequence[Example], *, dense: bool, lost: float, seed: int = 0
) -> TierModel:
    """A network for one tier, calibrated by cross-validation (Vovk 2015).

    Args:
        examples: examples of one tier, with and without right tools. Examples without a hit are
            ignored.
        dense: whether the tier has a dense stage, so that the wording is an input.
        lost: share of queries with a right tool on which it may abstain.
        seed: seed of the networks.

    Raises:
        RequestError: there are too few examples of either kind.
    """
    examples = [one for one in examples if len(one.right)]
    part = parts_of(examples, _FOLDS)
    check_parts(examples, part, _FOLDS)
    odds = np.empty(len(examples))
    for fold in range(_FOLDS):
        rest = [one for one, at in zip(examples, part, strict=True) if at != fold]
        model = _network_tier(rest, dense, seed)
        for at in np.flatnonzero(part == fold).tolist():
            odds[at] = model.classifier(model.row(examples[at].measured))
    served = np.array([one.served for one in examples])
    model = _network_tier(examples, dense, seed)
    slope, shift = _calibration(odds, served)
    classifier = replace(
        model.classifier,
        weights=slope * model.classifier.weights,
        offset=slope * model.classifier.offset + shift,
    )
    below = lowest_kept(sigmoid(slope * odds + shift)[served], lost)
    return replace(model, classifier=classifier, abstain_below=below)


def fit_network(
    values: NDArray[np.float64],
    labels: NDArray[np.bool_],
    *,
    share: NDArray[np.float64] | None = None,
    hidden: int = 8,
    members: int = 3,
    epochs: int = 40,
    decay: float = 0.004,
    seed: int = 0,
) -> Classifier:
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
    centre, scale = spread(values)
    inputs = standardised(values, centre, scale)
    counts = np.ones(len(values)) if share is None else share / share.mean()
    rng = np.random.default_rng(seed)
    parts = [
        _member(inputs, labels.astype(np.float64), counts, hidden, epochs, decay, rng)
        for _ in range(members)
    ]
    weights, biases, out, offsets = zip(*parts, strict=True)
    return Classifier(
        centre,
        scale,
        weights=np.concatenate(out) / members,
        offset=float(np.mean(offsets)),
        hidden=np.concatenate(weights, axis=1),
        biases=np.concatenate(biases),
    )


def balanced(labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights of the rows that give both labels the same total."""
    share = float(labels.mean())
    return np.where(labels, 0.5 / share, 0.5 / (1 - share))


def _network_tier(examples: Sequence[Example], dense: bool, seed: int) -> TierModel:
    """A network without calibration, which never abstains."""
    inputs = (*MEASUREMENTS, WORDING) if dense else MEASUREMENTS
    rows = np.array([[one.measured[name] for name in inputs] for one in examples])
    labels = np.array([one.served for one in examples])
    beyond_ascii = rows[:, inputs.index("ascii")] == 0
    share = balanced(labels) * np.where(labels & beyond_ascii, _BEYOND_ASCII, 1.0)
    return TierModel(fit_network(rows, labels, share=share, seed=seed), inputs, 0.0, dense=dense)


def _calibration(odds: NDArray[np.float64], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and shift that make log-odds calibrated (Platt 1999)."""
    fitted = Classifier.fit(odds[:, None], labels)
    slope = float(fitted.weights[0] / fitted.scale[0])
    return slope, float(fitted.offset - slope * fitted.centre[0])


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
