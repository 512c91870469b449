"""Cuts with a promise, from examples alone, whatever the scores mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def keeping_cut(scores: Sequence[NDArray[np.float64]], alpha: float) -> float:
    """The highest cut at which right tools are expected to be missed at a rate of alpha at most.

    The promise is of a further request drawn like the examples, before it is seen, and holds for
    any scores and any number of examples n: with R(c) the mean share of its right tools that an
    example loses at the cut c, the highest c with (n R(c) + 1) / (n + 1) <= alpha. With one right
    tool each this is split conformal prediction (Papadopoulos et al. 2002; its finite-sample
    quantile: Lei et al. 2018); for shares see Angelopoulos et al., "Conformal Risk Control",
    ICLR 2024.

    Args:
        scores: for each example the scores of its right tools, -inf for one that was not found.
        alpha: rate of right tools that may be missed.

    Returns:
        The cut: tools that score at least this are kept. -inf where no cut keeps the promise:
        too few examples, or too many right tools that the search does not find.
    """
    values = np.concatenate([np.asarray(one, np.float64) for one in scores] or [np.empty(0)])
    shares = np.concatenate([np.full(len(one), 1 / len(one)) for one in scores] or [np.empty(0)])
    order = np.argsort(values, kind="stable")
    allowed = alpha * (len(scores) + 1) - 1
    # A cut at a value loses what lies below it.
    lost = np.concatenate([[0.0], np.cumsum(shares[order])])[:-1]
    kept = np.flatnonzero(lost <= allowed + 1e-9)
    if allowed < 0 or not len(kept):
        return -np.inf
    return float(values[order[kept[-1]]])


def missed(scores: Sequence[NDArray[np.float64]], cut: float) -> float:
    """Mean share of right tools that score below a cut, over examples; 0 without any."""
    return float(np.mean([np.mean(np.asarray(one) < cut) for one in scores])) if scores else 0.0
