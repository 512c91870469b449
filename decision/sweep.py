"""The published rule: offer what is above one cosine, chosen by a sweep over labelled requests.

Tool Attention sweeps its threshold from 0.10 to 0.50 and takes the one of the best F1. The rule is
measured here for comparison and its threshold is kept in a calibration; the gates decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .examples import Example

THETAS = tuple(round(0.10 + 0.02 * step, 2) for step in range(21))
_OFFERED = 10


@dataclass(frozen=True, slots=True)
class ThetaRow:
    """What one threshold offers.

    Args:
        theta: the cosine from which a tool is offered, ten at most.
        precision: share of the offered tools that are right, over all requests; 1 of none.
        recall: share of the right tools that are offered, over all requests.
        f1: harmonic mean of the two.
        offered: tools a request.
    """

    theta: float
    precision: float
    recall: float
    f1: float
    offered: float


def sweep(examples: Sequence[Example]) -> list[ThetaRow]:
    """Every threshold; none where the tier has no cosine."""
    pairs = [(one.cosines[:_OFFERED], one) for one in examples if one.cosines is not None]
    due = sum(one.due for _, one in pairs)
    rows = []
    for theta in THETAS if pairs else ():
        offered = sum(int((cosines >= theta).sum()) for cosines, _ in pairs)
        right = sum(
            int((one.right[:_OFFERED] & (cosines >= theta)).sum()) for cosines, one in pairs
        )
        precision, recall = right / offered if offered else 1.0, right / due if due else 0.0
        f1 = 2 * precision * recall / ((precision + recall) or 1.0)
        rows.append(ThetaRow(theta, precision, recall, f1, offered / len(pairs)))
    return rows


def best_theta(examples: Sequence[Example]) -> float | None:
    """The threshold of the best F1, the lowest of several; None where there is no cosine."""
    rows = sweep(examples)
    return rows[int(np.argmax([row.f1 for row in rows]))].theta if rows else None
