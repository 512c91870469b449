"""Labelled answers, to fit and measure models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..retrieval.selection import Selection
from .measurements import DEPTH, Measurements, measure


@dataclass(frozen=True, slots=True)
class Example:
    """A measured answer with its labels.

    Args:
        measured: measurements of the answer.
        right: whether each hit is right, shape (n,).
        due: number of right tools; 0 if no tool fits.
        wording: log-odds, from its vector, that the query asks for a tool; None without a vector.
        dense: whether a dense stage found any of the hits.
        group: number of the query. Examples of one query are always on the same side of a split.
    """

    measured: Measurements
    right: NDArray[np.bool_]
    due: int
    wording: float | None
    dense: bool
    group: int

    @classmethod
    def of(
        cls,
        selection: Selection,
        relevant: Collection[str],
        *,
        wording: float | None = None,
        group: int = 0,
    ) -> Self:
        """Measure an answer.

        Args:
            selection: an answer with `DEPTH` hits if possible.
            relevant: ids of the right tools.
            wording: log-odds, from its vector, that the query asks for a tool.
            group: see the class.
        """
        hits = selection.hits[:DEPTH]
        return cls(
            measured=measure(selection.query, hits),
            right=np.array([hit.id in relevant for hit in hits], np.bool_),
            due=len(relevant),
            wording=wording,
            dense=any(hit.stages.get("dense") is not None for hit in hits),
            group=group,
        )

    @property
    def served(self) -> bool:
        """Whether any tool fits the query."""
        return self.due > 0


def parts_of(examples: Sequence[Example], count: int, seed: int = 0) -> NDArray[np.int64]:
    """The part of each example, shape (n,); examples of one group are in the same part."""
    _, groups = np.unique([one.group for one in examples], return_inverse=True)
    parts = np.arange(groups.max(initial=-1) + 1) % count
    return np.random.default_rng(seed).permutation(parts)[groups]


def right_scores(probabilities: NDArray[np.float64], example: Example) -> NDArray[np.float64]:
    """The probabilities of an example's right tools; -inf for a tool that was not found.

    Args:
        probabilities: probabilities of its hits, shape (n,).
        example: the labelled answer.
    """
    found = probabilities[example.right]
    return np.concatenate([found, np.full(example.due - len(found), -np.inf)])
