"""From a request to ranked tools: lexical, dense, fusion and rerank stages, and the tiers."""

from .protocols import (
    CandidateScorer,
    DenseIndex,
    Fusion,
    LexicalIndex,
    Retriever,
    Strategy,
)
from .query import Query, Ranking
from .run import Run
from .selection import Hit, Placement, Selection
from .strategy import Pipeline

__all__ = [
    "CandidateScorer",
    "DenseIndex",
    "Fusion",
    "Hit",
    "LexicalIndex",
    "Pipeline",
    "Placement",
    "Query",
    "Ranking",
    "Retriever",
    "Run",
    "Selection",
    "Strategy",
]
