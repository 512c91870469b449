"""What a model costs and keeps, on requests it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .examples import Example
from .tier import TierModel

_FIXED = 10


@dataclass(frozen=True, slots=True)
class Report:
    """Figures of one tier's model.

    Args:
        served: requests that some tool serves.
        unserved: requests that none does.
        found: share of right tools among the first ten hits, over served requests.
        kept: share of right tools offered, over served requests that were answered.
        offered: tools offered, over the same.
        reach: share of right tools among all hits judged, which no cut can exceed.
        abstained: share of unserved requests on which nothing was offered; None without any.
        right: share of abstentions that were right; None without any.
        lost: share of served requests that had a right tool in the first ten and were turned away.
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
    """Fit to all folds but one and judge that one, each in its turn.

    Args:
        examples: of one tier.
        made: unserved examples made from served ones of the same groups; they are fitted to, and
            judged only where `examples` holds no unserved ones.
        fit: makes a model of examples.
        folds: parts; examples of one group are in the same.

    Raises:
        RequestError: a part is too small to fit to.
    """
    everything = [*examples, *made]
    groups = np.array([one.group for one in everything])
    distinct = np.unique(groups)
    parts = np.random.default_rng(0).permutation(np.arange(len(distinct)) % folds)
    part = parts[np.searchsorted(distinct, groups)].tolist()
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
    """The figures of what was decided."""
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
