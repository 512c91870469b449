"""Numbers about an answer, as inputs of the models.

Most are relative (a lead over the second hit, a share of the query's terms), because an encoder
gives lower scores to tools that it was not trained on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.document import LEXICAL_FIELDS
from ..retrieval.selection import Hit
from ..text import terms

#: Hits a model wants to see, of which lists are measured over the first `LISTED`.
DEPTH = 20
LISTED = 10
#: Hits whose whole text is compared with the request, and whose names are.
_READ, _NAMED = 3, 5
_CACHED_TOOLS = 16_384

#: What is measured of a request and its list, in order.
REQUEST = (
    *("score", "score lead", "score lead over fourth", "score over mean"),
    *("dense", "dense best", "dense lead", "dense lead over fourth"),
    *("dense over last", "dense over mean", "dense last"),
    *("lexical", "lexical best", "lexical lead", "lexical over mean"),
    *("lexical by term", "lexical by root of terms"),
    *("coverage", "coverage best", "terms covered", "name", "name best", "server", "server best"),
    *("dense first", "lexical first", "agreement", "same server"),
    *("terms", "letters", "question", "digit", "ascii", "rare words", "proper name"),
)
#: What is measured of one hit, in order, before what is measured of its request.
HIT = (
    *("rank", "score behind best", "dense", "dense behind best", "lexical behind best"),
    *("dense rank", "lexical rank", "lexical share of best", "name", "server", "servers alike"),
)
_ODD = re.compile(r"(?<=.)[A-Z]|\d|[/_@#]|\.(?=.)")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Measurements:
    """An answer in numbers.

    Args:
        request: shape (len(REQUEST),).
        hits: shape (n, len(HIT)), a row for each hit.
    """

    request: NDArray[np.float64]
    hits: NDArray[np.float64]

    def joined(self) -> NDArray[np.float64]:
        """For each hit, its measurements and those of the query, (n, len(HIT) + len(REQUEST))."""
        repeated = np.broadcast_to(self.request, (len(self.hits), len(self.request)))
        return np.concatenate([self.hits, repeated], axis=1)


def measure(query: str, hits: Sequence[Hit]) -> Measurements:
    """Measure an answer.

    Args:
        query: the query.
        hits: hits, best first; `DEPTH` of them if the catalog has as many tools.
    """
    asked = dict.fromkeys(terms(query))
    # A tier has one of the two stages that compare vectors.
    meaning = "dense" if any("dense" in hit.stages for hit in hits) else "static"
    dense_ranks, dense = _placed(meaning, hits)
    lexical_ranks, lexical = _placed("lexical", hits)
    floor = min((score for score, rank in zip(dense, dense_ranks, strict=True) if rank), default=0)
    dense = [score if rank else floor for score, rank in zip(dense, dense_ranks, strict=True)]
    names = [_shares(hit.tool, asked) for hit in hits]
    score = [hit.score for hit in hits]
    servers = [hit.tool.server for hit in hits]
    listed = slice(LISTED)
    best_dense, best_lexical = sorted(dense[listed])[::-1], sorted(lexical[listed])[::-1]
    covered = [_covered(hit.tool, asked) for hit in hits[:_READ]]
    count = len(asked) or 1
    name, server = zip(*names[:_NAMED], strict=True) if names else ((0.0,), (0.0,))
    agreeing = sum(
        0 < one <= _NAMED and 0 < other <= _NAMED
        for one, other in zip(dense_ranks[listed], lexical_ranks[listed], strict=True)
    )
    words = query.split()
    request = (
        *(_at(score, 0), _lead(score, 1), _lead(score, 3), _over_mean(score[listed])),
        *(_at(dense, 0), _at(best_dense, 0), _lead(best_dense, 1), _lead(best_dense, 3)),
        *(_lead(best_dense, LISTED), _over_mean(best_dense), _at(best_dense, LISTED)),
        *(_at(lexical, 0), _at(best_lexical, 0), _lead(best_lexical, 1), _over_mean(best_lexical)),
        *(_at(best_lexical, 0) / count, _at(best_lexical, 0) / math.sqrt(count)),
        *(_at(covered, 0) / count, max(covered, default=0) / count, _at(covered, 0)),
        *(name[0], max(name), server[0], max(server)),
        *(_inverse(dense_ranks), _inverse(lexical_ranks), agreeing / _NAMED),
        sum(one == servers[0] for one in servers[:_NAMED]) / _NAMED,
        *(math.log1p(len(asked)), math.log1p(len(query)), float("?" in query or "\uff1f" in query)),
        *(float(any(map(str.isdigit, query))), float(query.isascii())),
        sum(_ODD.search(word) is not None for word in words) / (len(words) or 1),
        float(_PROPER.search(query) is not None),
    )
    top, top_dense, top_lexical = _at(score, 0), _at(best_dense, 0), _at(best_lexical, 0)
    rows = [
        (
            *(math.log(hit.rank), top - hit.score, dense[at], top_dense - dense[at]),
            *(top_lexical - lexical[at], _inverse(dense_ranks[at:]), _inverse(lexical_ranks[at:])),
            *(lexical[at] / (top_lexical or 1.0), *names[at]),
            float(servers.count(servers[at])) / len(hits),
        )
        for at, hit in enumerate(hits)
    ]
    return Measurements(np.array(request), np.array(rows).reshape(len(hits), len(HIT)))


def _placed(stage: str, hits: Sequence[Hit]) -> tuple[list[int], list[float]]:
    """Rank and score of each hit in a stage; 0 if the stage did not list it."""
    places = [hit.stages.get(stage) for hit in hits]
    return (
        [place.rank if place else 0 for place in places],
        [place.score if place else 0.0 for place in places],
    )


def _at(values: Sequence[float], place: int) -> float:
    return values[min(place, len(values) - 1)] if values else 0.0


def _lead(values: Sequence[float], place: int) -> float:
    return _at(values, 0) - _at(values, place)


def _over_mean(values: Sequence[float]) -> float:
    return _at(values, 0) - sum(values) / (len(values) or 1)


def _inverse(ranks: Sequence[int]) -> float:
    return 1 / ranks[0] if ranks and ranks[0] else 0.0


@lru_cache(_CACHED_TOOLS)
def _text_terms(tool: Tool) -> frozenset[str]:
    return frozenset(terms(LEXICAL_FIELDS["text"](tool)))


@lru_cache(_CACHED_TOOLS)
def _name_terms(tool: Tool) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(terms(tool.name)), frozenset(terms(tool.server or ""))


def _covered(tool: Tool, asked: dict[str, None]) -> int:
    """Number of the query's terms that occur in the tool."""
    return len(asked.keys() & _text_terms(tool))


def _shares(tool: Tool, asked: dict[str, None]) -> tuple[float, float]:
    """Shares of the terms of the tool's name and of its server's name that the query has."""
    name, server = _name_terms(tool)
    return (
        len(asked.keys() & name) / (len(name) or 1),
        len(asked.keys() & server) / (len(server) or 1),
    )
