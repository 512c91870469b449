"""From a request to ranked tools: lexical, dense, fusion and rerank stages, and the tiers."""

from .protocols import DenseIndex, Fusion, LexicalIndex, Retriever
from .query import Query, Ranking
from .run import Run, Strategy
from .selection import Hit, Selection, StageResult
from .strategy import Pipeline

__all__ = [
    "DenseIndex",
    "Fusion",
    "Hit",
    "LexicalIndex",
    "Pipeline",
    "Query",
    "Ranking",
    "Retriever",
    "Run",
    "Selection",
    "StageResult",
    "Strategy",
]
