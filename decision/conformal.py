"""Cuts with a guarantee, computed from examples, for any kind of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def keeping_cut(scores: Sequence[NDArray[np.float64]], alpha: float) -> float:
    """The highest cut at which the expected share of missed right tools is at most alpha.

    The guarantee is for a further query from the same distribution as the examples. It holds for
    any scores and any number of examples n. R(c) is the mean share of right tools that an example
    loses at the cut c. The result is the highest c with (n R(c) + 1) / (n + 1) <= alpha. With one
    right tool each, this is split conformal prediction (Papadopoulos et al. 2002; finite-sample
    quantile: Lei et al. 2018). For shares see Angelopoulos et al., "Conformal Risk Control", ICLR
    2024.

    Args:
        scores: for each example, the scores of its right tools; -inf for a tool that was not found.
        alpha: share of right tools that may be missed, 0 to 1.

    Returns:
        The cut: tools with at least this score are kept. -inf if no cut gives the guarantee: too
            few examples, or the search misses too many right tools.
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
