"""Measures missed and offered tools of a cut, on splits that it was not fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...decision.conformal import keeping_cut, missed
from ...decision.examples import Example, right_scores
from ...decision.tier import TierModel

_SPLITS = 200
_FIXED = 10


@dataclass(frozen=True, slots=True)
class CutRow:
    """A cut that was fitted to one half of the served requests and measured on the other.

    Args:
        alpha: highest rate of missed right tools; None for the cut with the recall of the first ten
            hits.
        missed: measured rate of missed right tools, mean over splits.
        offered: tools per request, mean over splits.
    """

    alpha: float | None
    missed: float
    offered: float


def cut_rates(
    model: TierModel, examples: Sequence[Example], alphas: Sequence[float] = (0.05, 0.10)
) -> list[CutRow]:
    """A row for each alpha that some cut keeps, and one at the recall of the first ten hits.

    Args:
        model: fitted to other examples.
        examples: examples of its tier. Only the cut is measured, without abstentions.
        alphas: rates of right tools that may be missed.
    """
    served = [one for one in examples if one.served]
    if len(served) < 2:
        return []
    offers = [model.rightness(one.measured) for one in served]
    scores = [right_scores(offer, one) for offer, one in zip(offers, served, strict=True)]
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(served)) for _ in range(_SPLITS)]
    half = len(served) // 2
    rows = []
    for alpha in alphas:
        measured = []
        for order in orders:
            cut = keeping_cut([scores[at] for at in order[:half]], alpha)
            held = order[half:]
            rate = missed([scores[at] for at in held], cut)
            measured.append((cut, rate, _offered([offers[at] for at in held], cut)))
        cuts, rates, sizes = zip(*measured, strict=True)
        if not np.isneginf(cuts).any():
            rows.append(CutRow(alpha, float(np.mean(rates)), float(np.mean(sizes))))
    beyond = float(np.mean([1 - one.right[:_FIXED].sum() / one.due for one in served]))
    values = np.unique(np.concatenate(scores))
    cut = max(value for value in values if missed(scores, value) <= beyond + 1e-9)
    rows.append(CutRow(None, missed(scores, cut), _offered(offers, cut)))
    return rows


def _offered(offers: Sequence[NDArray[np.float64]], cut: float) -> float:
    return float(np.mean([max(1, int((offer >= cut).sum())) for offer in offers]))
