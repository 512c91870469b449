"""Fusions: merge several rankings into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from ...errors import ConfigError
from ...settings import PartSettings
from ..query import Ranking, distinct, ties_by_row

# The weight of BM25 by the share of the searched terms that its best row has.
_LOWEST_WEIGHT, _ADDED_WEIGHT, _COVERED_POWER = 0.006, 0.009, 4
# The best row by words stays at this place or before, from 0, if so few terms are searched, or if
# it has this share of them. In requests of many steps it has fewer, and is seldom right.
_LAST_PLACE_OF_KEPT, _FEW_TERMS, _MIN_COVERED_OF_KEPT = 4, 5, 0.5

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class LinearSettings(PartSettings):
    """Settings of `LinearFusion`."""

    weights: dict[str, _Amount] | None = None


class RrfSettings(PartSettings):
    """Settings of `ReciprocalRankFusion`."""

    k: _Amount = 60
    weights: dict[str, _Amount] | None = None


class ReciprocalRankFusion:
    """Score of a row = sum over rankings of weight / (k + rank), ranks from 1.

    Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual
    rank learning methods", SIGIR 2009, with their k = 60.

    Args:
        k: larger values give more weight to low ranks.
        weights: stage name to its weight, 1 where absent.
    """

    Settings = RrfSettings

    def __init__(self, k: float = 60, weights: Mapping[str, float] | None = None) -> None:
        self._k = k
        self._weights = dict(weights or {})
        if k < 0 or any(weight < 0 for weight in self._weights.values()):
            raise ConfigError(f"fusion: k ({k}) and weights ({self._weights}) must not be negative")

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every row of any ranking with its fused score, best first, ties by row."""
        _check_stages(self._weights, rankings)
        rows = np.concatenate([ranking.rows for ranking in rankings.values()])
        rank_scores = np.concatenate(
            [
                self._weights.get(name, 1.0) / (self._k + np.arange(1, len(ranking) + 1))
                for name, ranking in rankings.items()
            ]
        )
        ranked = distinct(rows)
        scores = np.bincount(np.searchsorted(ranked, rows), rank_scores, len(ranked))
        return Ranking.best(ranked, scores.astype(np.float32), len(ranked))


class LinearFusion:
    """Score of a row = sum over rankings of weight * score, in the scores' own units.

    Unlike ranks, scores distinguish a clear lead from a close one. BM25 scores are large only if
    rare words of the query occur. Convex combination of scores is compared with RRF in Bruch, Gai
    and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023. A row that is not
    in a ranking gets 0 if the ranking lists every match, otherwise the lowest score of the ranking.

    Args:
        weights: stage name to its weight; 1 when absent. By default one point of BM25 counts as
            much as 0.006 of cosine, and up to 0.015 if the best row by words has all terms of the
            query that any row has. If it has half of these terms, or they are five at most, it also
            stays among the first five. These numbers were chosen on development sets of queries for
            real servers (ADR 33).

    Attributes:
        reads_coverage: whether it reads `Ranking.best_covers`.
    """

    Settings = LinearSettings

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._given = dict(weights or {})
        self.reads_coverage = weights is None
        if any(weight < 0 for weight in self._given.values()):
            raise ConfigError(f"fusion: weights ({self._given}) must not be negative")

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking:
        """Every row of any ranking with its fused score, best first, ties by row."""
        _check_stages(self._given, rankings)
        weights = self._given
        lexical = rankings.get("lexical") if self.reads_coverage else None
        covered = 0.0 if lexical is None else lexical.best_covers or 0.0
        if lexical is not None:
            weights = {"lexical": _LOWEST_WEIGHT + _ADDED_WEIGHT * covered**_COVERED_POWER}
        rows = distinct(np.concatenate([ranking.rows for ranking in rankings.values()]))
        total = np.zeros(len(rows), np.float32)
        for name, ranking in rankings.items():
            if len(ranking):
                other_score = (
                    ranking.scores[-1]
                    if ranking.max_other_score is None
                    else ranking.max_other_score
                )
                scores = np.full(len(rows), other_score, np.float32)
                scores[np.searchsorted(rows, ranking.rows)] = ranking.scores
                total += np.float32(weights.get(name, 1.0)) * scores
        fused = Ranking.best(rows, total, len(rows))
        if lexical is None or not len(lexical):
            return fused
        has_few_terms = len(lexical.searched_terms or ()) <= _FEW_TERMS
        if covered < _MIN_COVERED_OF_KEPT and not has_few_terms:
            return fused
        return _with_row_in_place(fused, int(lexical.rows[0]), _LAST_PLACE_OF_KEPT)


def _with_row_in_place(ranking: Ranking, row: int, place: int) -> Ranking:
    """The ranking with a row at this place, from 0, or before, with the score of the place before.

    The ranking stays where the row has such a place.
    """
    at = int(np.flatnonzero(ranking.rows == row)[0])
    if at <= place:
        return ranking
    rows = np.insert(np.delete(ranking.rows, at), place, row)
    scores = np.insert(np.delete(ranking.scores, at), place, ranking.scores[place - 1])
    return ties_by_row(Ranking(rows, scores))


def _check_stages(weights: Mapping[str, float], rankings: Mapping[str, Ranking]) -> None:
    if unknown := set(weights) - set(rankings):
        raise ConfigError(
            f"fusion.weights: no stage {', '.join(sorted(unknown))}; "
            f"fused here: {', '.join(rankings)}"
        )
