"""Fits models to labelled answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import RequestError
from .conformal import keeping_cut
from .examples import Example, parts_of, right_scores
from .logistic import Logistic, sigmoid
from .measurements import REQUEST
from .network import Network
from .tier import Head, TierModel

ALPHA = 0.05
"""Default share of right tools that the cut may miss."""
LOST = 0.0275
"""Default share of queries with a right tool on which it may abstain."""
#: Parts, each calibrated on by what the others fitted.
_FOLDS = 4
#: Hits of an example that the head for tools learns from; deeper ones are nearly all wrong.
_LEARNED = 10
#: Of the head for tools: units of a member and passes over its many rows.
_UNITS, _PASSES = 16, 6
#: What a served request beyond ASCII counts: they are few, and encoders read them worst, so that
#: they would be turned away first.
_BEYOND_ASCII = 3.0


@dataclass(frozen=True, slots=True)
class _Odds:
    """Log-odds from networks, for examples that they were not fitted to.

    Args:
        fits: log-odds that a tool fits the query, one per example.
        right: log-odds that each hit is right, one array per example.
    """

    fits: list[float]
    right: list[NDArray[np.float64]]


def fit_tier(
    examples: Sequence[Example],
    *,
    dense: bool,
    alpha: float = ALPHA,
    lost: float = LOST,
    seed: int = 0,
) -> TierModel:
    """A model fitted to all examples, with cuts from cross-validation.

    This is cross-conformal prediction (Vovk, "Cross-conformal predictors", 2015): all examples are
    used for fitting. The guarantee of the cuts then holds in practice, but is not proved.

    Args:
        examples: examples of one tier, with and without right tools. Examples without a hit are
            ignored.
        dense: whether the tier has a dense stage.
        alpha: share of right tools that the cut may miss.
        lost: share of queries with a right tool on which it may abstain.
        seed: seed of the networks and of the folds.

    Raises:
        RequestError: there are too few examples of either kind.
    """
    examples = [one for one in examples if len(one.right)]
    part = parts_of(examples, _FOLDS, seed)
    for kind, which in (("that a tool serves", True), ("that no tool serves", False)):
        some = [
            int((part[[one.served is which for one in examples]] == at).sum())
            for at in range(_FOLDS)
        ]
        if min(some) < 2:
            raise RequestError(f"too few requests {kind} to fit a model to")
    fits, right = np.empty(len(examples)), [np.empty(0)] * len(examples)
    for fold in range(_FOLDS):
        rest = [one for one, at in zip(examples, part, strict=True) if at != fold]
        unseen = np.flatnonzero(part == fold).tolist()
        odds = _odds(_networks(rest, dense, seed), [examples[at] for at in unseen])
        fits[unseen] = odds.fits
        for at, values in zip(unseen, odds.right, strict=True):
            right[at] = values
    model = _networks(examples, dense, seed)
    return _with_cuts(model, examples, _Odds(fits.tolist(), right), alpha, lost)


def calibrated(
    model: TierModel, examples: Sequence[Example], *, alpha: float = ALPHA, lost: float = LOST
) -> TierModel:
    """The model with probabilities and cuts fitted to these examples.

    Args:
        model: model fitted to other examples.
        examples: examples of the same tier, like the queries to come.
        alpha: share of right tools that the cut may miss.
        lost: share of queries with a right tool on which it may abstain.

    Raises:
        RequestError: no example has a right tool.
    """
    examples = [one for one in examples if len(one.right)]
    if not any(one.served for one in examples):
        raise RequestError("no query has a right tool in the catalog: nothing to calibrate on")
    return _with_cuts(model, examples, _odds(model, examples), alpha, lost)


def _networks(examples: Sequence[Example], dense: bool, seed: int) -> TierModel:
    """A model without calibration and without cuts."""
    plain = Logistic(np.ones(1), 0.0)
    rows = np.array([one.measured.request for one in examples])
    labels = np.array([one.served for one in examples])
    beyond_ascii = rows[:, REQUEST.index("ascii")] == 0
    share = balanced(labels) * np.where(labels & beyond_ascii, _BEYOND_ASCII, 1.0)
    if dense:
        rows = np.column_stack([rows, _wording(examples)])
    fits = Network.fit(rows, labels, share=share, seed=seed)
    served = [one for one in examples if one.served]
    hits = np.concatenate([one.measured.joined()[:_LEARNED] for one in served])
    labels = np.concatenate([one.right[:_LEARNED] for one in served])
    right = Network.fit(hits, labels, hidden=_UNITS, epochs=_PASSES, seed=seed)
    return TierModel(Head(fits, plain), Head(right, plain), 0.0, 0.0, None, 0.0, dense)


def _odds(model: TierModel, examples: Sequence[Example]) -> _Odds:
    rows = np.array([model.request_row(one.measured, one.wording) for one in examples])
    right = [model.right.network(one.measured.joined()) for one in examples]
    return _Odds(model.fits.network(rows).tolist(), right)


def _with_cuts(
    model: TierModel, examples: Sequence[Example], odds: _Odds, alpha: float, lost: float
) -> TierModel:
    served = np.array([one.served for one in examples])
    values = np.array(odds.fits)[:, None]
    scale = model.fits.calibration if served.all() else Logistic.fit(values, served)
    fits = sigmoid(scale(values))
    listed = [at for at, one in enumerate(examples) if one.served]
    right_scale = Logistic.fit(
        np.concatenate([odds.right[at][:_LEARNED] for at in listed])[:, None],
        np.concatenate([examples[at].right[:_LEARNED] for at in listed]),
    )
    # Turned away are the least probable: the promise is the cut's, of one score a request.
    abstain_below = max(0.0, keeping_cut([fits[at : at + 1] for at in listed], lost))
    scores = [
        right_scores(sigmoid(right_scale(odds.right[at][:, None])), examples[at])
        for at in listed
        if fits[at] >= abstain_below
    ]
    cut = keeping_cut(scores, alpha)
    return TierModel(
        fits=Head(model.fits.network, scale),
        right=Head(model.right.network, right_scale),
        abstain_below=abstain_below,
        keep_from=max(0.0, cut),
        alpha=None if np.isneginf(cut) else alpha,
        lost=lost,
        dense=model.dense,
    )


def _wording(examples: Sequence[Example]) -> NDArray[np.float64]:
    """The wording of each example; the mean of the others if unknown."""
    wording = np.array([np.nan if one.wording is None else one.wording for one in examples])
    known = wording[~np.isnan(wording)]
    wording[np.isnan(wording)] = known.mean() if len(known) else 0.0
    return wording


def balanced(labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Weights of the rows that give both labels the same total."""
    share = float(labels.mean())
    return np.where(labels, 0.5 / share, 0.5 / (1 - share))
