"""Figures of a model, on queries it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .examples import Example, parts_of
from .tier import TierModel

_FIXED = 10


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of one tier's model.

    Args:
        served: number of queries that a tool fits.
        unserved: number of queries that no tool fits.
        found: share of right tools among the first ten hits, over `served`.
        kept: share of right tools that are offered, over queries of `served` without abstention.
        offered: mean number of offered tools, over the same queries.
        reach: share of right tools among all hits judged, which no cut can exceed.
        abstained: share of `unserved` on which it abstained; None without any.
        right: share of abstentions that were right; None without any.
        lost: share of `served` with a right tool in the first ten hits on which it abstained.
    """

    served: int
    unserved: int
    found: float
    kept: float
    offered: float
    reach: float
    abstained: float | None
    right: float | None
    lost: float

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Outcome:
    example: Example
    abstained: bool
    kept: int
    offered: int


def cross_validate(
    examples: Sequence[Example],
    made: Sequence[Example],
    fit: Callable[[Sequence[Example]], TierModel],
    *,
    folds: int = 5,
) -> Report:
    """Fit to all folds but one and measure on that one, for each fold.

    Args:
        examples: examples of one tier.
        made: negative examples made from those of the same groups. They are always used for
            fitting, and for measuring only if `examples` has no negative ones.
        fit: function that fits a model to examples.
        folds: number of parts. Examples of one group are in the same part.

    Raises:
        RequestError: a part is too small for fitting.
    """
    everything = [*examples, *made]
    part = parts_of(everything, folds).tolist()
    judged = len(examples) if any(not one.served for one in examples) else len(everything)
    outcomes: list[_Outcome] = []
    for fold in range(folds):
        model = fit([one for one, at in zip(everything, part, strict=True) if at != fold])
        of_fold = zip(everything[:judged], part[:judged], strict=True)
        outcomes += [_outcome(model, one) for one, at in of_fold if at == fold]
    return _report(outcomes)


def measure_fitted(examples: Sequence[Example], model: TierModel) -> Report:
    """Figures of a model that was fitted to other examples."""
    return _report([_outcome(model, one) for one in examples])


def _outcome(model: TierModel, one: Example) -> _Outcome:
    if not len(one.right):
        return _Outcome(one, True, 0, 0)
    abstained = model.fitting(one.measured, one.wording) < model.abstain_below
    right = model.rightness(one.measured)
    offered = right >= model.keep_from
    if not offered.any():
        offered[int(right.argmax())] = True
    return _Outcome(one, abstained, int((offered & one.right).sum()), int(offered.sum()))


def _report(outcomes: Sequence[_Outcome]) -> Report:
    """The figures of the decisions."""
    served = [out for out in outcomes if out.example.served]
    answered = [out for out in served if not out.abstained]
    unserved = [out for out in outcomes if not out.example.served]
    turned = [out for out in outcomes if out.abstained]
    return Report(
        served=len(served),
        unserved=len(unserved),
        found=_mean([out.example.right[:_FIXED].sum() / out.example.due for out in served]),
        kept=_mean([out.kept / out.example.due for out in answered]),
        offered=_mean([out.offered for out in answered]),
        reach=_mean([out.example.right.sum() / out.example.due for out in answered]),
        abstained=_mean([out.abstained for out in unserved]) if unserved else None,
        right=_mean([not out.example.served for out in turned]) if turned else None,
        lost=_mean([out.abstained and out.example.right[:_FIXED].any() for out in served]),
    )


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
