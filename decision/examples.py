"""Labelled answers: what models are fitted to and measured on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..retrieval.selection import Selection
from .measurements import DEPTH, Measurements, measure


@dataclass(frozen=True, slots=True)
class Example:
    """An answer and what would have been right.

    Args:
        measured: of the answer.
        right: whether each hit serves the request, shape (n,).
        due: how many tools serve it; 0 when none does.
        wording: log-odds, by its vector, that it asks for a tool; None if there is no vector.
        dense: whether a dense stage found any of the hits.
        group: examples of one request share it, so that they are never on both sides of a split.
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
            selection: of `DEPTH` hits at best.
            relevant: ids of the tools that serve the request.
            wording: log-odds, by its vector, that it asks for a tool.
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
        """Whether any tool serves the request."""
        return self.due > 0


def right_scores(probabilities: NDArray[np.float64], example: Example) -> NDArray[np.float64]:
    """The probabilities of a served example's right tools, -inf for one that was not found.

    Args:
        probabilities: of its hits, shape (n,).
        example: the answer.
    """
    found = probabilities[example.right]
    return np.concatenate([found, np.full(example.due - len(found), -np.inf)])
