"""Gates fitted to labelled answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import RequestError
from .conformal import keeping_cut
from .examples import Example, right_scores
from .logistic import Logistic
from .network import Network
from .sweep import best_theta
from .tier import Head, TierGate

ALPHA = 0.05
"""Rate of right tools that the cut may miss."""
LOST = 0.03
"""Rate of served requests that may be turned away."""
#: Share of the requests that calibrate what the others fitted.
_CALIBRATING = 0.2
#: Hits of an example that the head for tools learns from; deeper ones are nearly all wrong.
_LEARNED = 10
#: Of the head for tools: units of a member and passes over its many rows.
_UNITS, _PASSES = 16, 6


def fit_gate(
    examples: Sequence[Example],
    *,
    dense: bool,
    alpha: float = ALPHA,
    lost: float = LOST,
    seed: int = 0,
) -> TierGate:
    """A gate fitted to a part of the examples and calibrated on the rest.

    Args:
        examples: of one tier, some served and some not; those without a hit teach nothing.
        dense: whether the tier has a dense stage.
        alpha: rate of right tools that the cut may miss.
        lost: rate of served requests that may be turned away.
        seed: of the networks and of the parts.

    Raises:
        RequestError: too few examples of either kind.
    """
    examples = [one for one in examples if len(one.right)]
    groups = np.array([one.group for one in examples])
    held = np.random.default_rng(seed).permutation(np.unique(groups))
    held = held[: int(len(held) * _CALIBRATING)]
    part = np.isin(groups, held)
    fitting = [one for one, out in zip(examples, part, strict=True) if not out]
    calibrating = [one for one, out in zip(examples, part, strict=True) if out]
    for kind, which in (("that a tool serves", True), ("that no tool serves", False)):
        if min(sum(one.served is which for one in some) for some in (fitting, calibrating)) < 2:
            raise RequestError(f"too few requests {kind} to fit a gate to")
    plain = Logistic(np.ones(1), 0.0)
    rows, labels = _requests(fitting, dense)
    fits = Network.fit(rows, labels, share=balanced(labels), seed=seed)
    rows, labels = _hits(fitting)
    right = Network.fit(rows, labels, hidden=_UNITS, epochs=_PASSES, seed=seed)
    gate = TierGate(Head(fits, plain), Head(right, plain), 0.0, 0.0, alpha, lost, dense, None)
    return calibrated(gate, calibrating, alpha=alpha, lost=lost)


def calibrated(
    gate: TierGate, examples: Sequence[Example], *, alpha: float = ALPHA, lost: float = LOST
) -> TierGate:
    """The gate with probabilities and cuts that hold for these examples.

    Args:
        gate: fitted to other examples.
        examples: of the same tier, drawn as requests will come.
        alpha: rate of right tools that the cut may miss.
        lost: rate of served requests that may be turned away.

    Raises:
        RequestError: no example is served.
    """
    examples = [one for one in examples if len(one.right)]
    if not any(one.served for one in examples):
        raise RequestError("no request names a tool that serves it: nothing to calibrate on")
    rows, labels = _requests(examples, gate.dense, gate)
    fits = gate.fits
    if not labels.all():
        fits = Head(fits.network, Logistic.fit(fits.network(rows)[:, None], labels))
    hit_rows, hit_labels = _hits(examples)
    network = gate.right.network
    right = Head(network, Logistic.fit(network(hit_rows)[:, None], hit_labels))
    gate = replace(gate, fits=fits, right=right, lost=lost)
    # Turned away are the least probable: the promise is the cut's, of one score a request.
    served = [np.atleast_1d(score) for score in fits(rows)[labels]]
    abstain_below = max(0.0, keeping_cut(served, lost))
    answered = [
        one
        for one, score in zip(examples, fits(rows), strict=True)
        if one.served and score >= abstain_below
    ]
    cut = keeping_cut(right_scores(gate, answered), alpha)
    return replace(
        gate,
        abstain_below=abstain_below,
        keep_from=max(0.0, cut),
        alpha=None if np.isneginf(cut) else alpha,
        theta=best_theta(examples),
    )


def _requests(
    examples: Sequence[Example], dense: bool, gate: TierGate | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    labels = np.array([one.served for one in examples])
    if gate is not None:
        return np.array([gate.request_row(one.measured, one.wording) for one in examples]), labels
    rows = np.array([one.measured.request for one in examples])
    if not dense:
        return rows, labels
    wording = np.array([np.nan if one.wording is None else one.wording for one in examples])
    known = wording[~np.isnan(wording)]
    wording[np.isnan(wording)] = known.mean() if len(known) else 0.0
    return np.column_stack([rows, wording]), labels


def _hits(examples: Sequence[Example]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    served = [one for one in examples if one.served]
    rows = np.concatenate([one.measured.joined()[:_LEARNED] for one in served])
    return rows, np.concatenate([one.right[:_LEARNED] for one in served])


def balanced(labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each row counts so that both labels count the same."""
    share = float(labels.mean())
    return np.where(labels, 0.5 / share, 0.5 / (1 - share))
