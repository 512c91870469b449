"""Numbers about an answer, as inputs of the models.

Most are relative (a lead over the second hit, a share of the query's terms), because an encoder
gives lower scores to tools that it was not trained on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from ..catalog import Tool
from ..catalog.tool_document import LEXICAL_FIELDS
from ..retrieval.selection import Hit
from ..text import search_terms

#: Hits a model reads, of which lists are measured over the first `HITS_COMPARED`.
HITS_MEASURED = 20
HITS_COMPARED = 10
#: Hits whose whole text is compared with the request, and hits whose names are.
_TEXTS_COMPARED, _NAMES_COMPARED = 3, 5
_CACHED_TOOLS = 16_384

_RARE_WORD = re.compile(r"(?<=.)[A-Z]|\d|[/_@#]|\.(?=.)")
_PROPER_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


def measure(query: str, hits: Sequence[Hit]) -> dict[str, float]:
    """Measure an answer: name to number, the same names for every answer.

    `score...` are scores of the tier, `dense...` cosines, `lexical...` BM25 scores. A `lead` is the
    difference to a later hit. `coverage` is the share of the query's terms in the text of the first
    hit; `name` and `server` are the shares of its name and of its server's name in the query; with
    `best`, of the first few hits. `agreement` is the share of the first hits that both retrievers
    rank high. From `terms` on, the query itself is measured.

    Args:
        query: the query.
        hits: hits, best first; `HITS_MEASURED` of them if the catalog has as many tools.
    """
    query_terms = dict.fromkeys(search_terms(query))
    count = len(query_terms) or 1
    words = query.split()
    listed = slice(HITS_COMPARED)
    # A tier has one of the two stages that compare vectors.
    meaning = "dense" if any("dense" in hit.stages for hit in hits) else "static"
    dense_ranks, dense = _ranks_and_scores(meaning, hits)
    lexical_ranks, lexical = _ranks_and_scores("lexical", hits)
    floor = min((score for score, rank in zip(dense, dense_ranks, strict=True) if rank), default=0)
    dense = [score if rank else floor for score, rank in zip(dense, dense_ranks, strict=True)]
    best_dense, best_lexical = sorted(dense[listed])[::-1], sorted(lexical[listed])[::-1]
    score = [hit.score for hit in hits]
    covered = [_covered(hit.tool, query_terms) for hit in hits[:_TEXTS_COMPARED]]
    shares = [_shares(hit.tool, query_terms) for hit in hits[:_NAMES_COMPARED]] or [(0.0, 0.0)]
    name, server = zip(*shares, strict=True)
    servers = [hit.tool.server for hit in hits[:_NAMES_COMPARED]]
    agreeing = sum(
        0 < dense_rank <= _NAMES_COMPARED and 0 < lexical_rank <= _NAMES_COMPARED
        for dense_rank, lexical_rank in zip(dense_ranks[listed], lexical_ranks[listed], strict=True)
    )
    return {
        "score": _at(score, 0),
        "score_lead": _lead(score, 1),
        "score_lead_over_fourth": _lead(score, 3),
        "score_over_mean": _over_mean(score[listed]),
        "dense": _at(dense, 0),
        "dense_best": _at(best_dense, 0),
        "dense_lead": _lead(best_dense, 1),
        "dense_lead_over_fourth": _lead(best_dense, 3),
        "dense_over_last": _lead(best_dense, HITS_COMPARED),
        "dense_over_mean": _over_mean(best_dense),
        "dense_last": _at(best_dense, HITS_COMPARED),
        "lexical": _at(lexical, 0),
        "lexical_best": _at(best_lexical, 0),
        "lexical_lead": _lead(best_lexical, 1),
        "lexical_over_mean": _over_mean(best_lexical),
        "lexical_by_term": _at(best_lexical, 0) / count,
        "lexical_by_root_of_terms": _at(best_lexical, 0) / math.sqrt(count),
        "coverage": _at(covered, 0) / count,
        "coverage_best": max(covered, default=0) / count,
        "terms_covered": _at(covered, 0),
        "name": name[0],
        "name_best": max(name),
        "server": server[0],
        "server_best": max(server),
        "dense_first": _inverse_of_first(dense_ranks),
        "lexical_first": _inverse_of_first(lexical_ranks),
        "agreement": agreeing / _NAMES_COMPARED,
        "same_server": sum(server_name == servers[0] for server_name in servers) / _NAMES_COMPARED,
        "terms": math.log1p(len(query_terms)),
        "letters": math.log1p(len(query)),
        "question": float("?" in query or "\uff1f" in query),
        "digit": float(any(map(str.isdigit, query))),
        "ascii": float(query.isascii()),
        "rare_words": sum(_RARE_WORD.search(word) is not None for word in words)
        / (len(words) or 1),
        "proper_name": float(_PROPER_NAME.search(query) is not None),
    }


def _ranks_and_scores(stage: str, hits: Sequence[Hit]) -> tuple[list[int], list[float]]:
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


def _inverse_of_first(ranks: Sequence[int]) -> float:
    return 1 / ranks[0] if ranks and ranks[0] else 0.0


@lru_cache(_CACHED_TOOLS)
def _text_terms(tool: Tool) -> frozenset[str]:
    return frozenset(search_terms(LEXICAL_FIELDS["text"](tool)))


@lru_cache(_CACHED_TOOLS)
def _name_terms(tool: Tool) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(search_terms(tool.name)), frozenset(search_terms(tool.server or ""))


def _covered(tool: Tool, query_terms: dict[str, None]) -> int:
    """Number of the query's terms that occur in the tool."""
    return len(query_terms.keys() & _text_terms(tool))


def _shares(tool: Tool, query_terms: dict[str, None]) -> tuple[float, float]:
    """Shares of the terms of the tool's name and of its server's name that the query has."""
    name, server = _name_terms(tool)
    return (
        len(query_terms.keys() & name) / (len(name) or 1),
        len(query_terms.keys() & server) / (len(server) or 1),
    )


MEASUREMENTS = tuple(measure("", ()))
"""Names of the measurements."""
