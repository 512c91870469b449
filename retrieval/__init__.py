"""From a request to ranked tools: lexical, dense, fusion and rerank stages, and the tiers."""

from .backends.protocols import DenseIndex, Fusion, LexicalIndex, Retriever
from .query import Query, Ranking
from .search.query_run import QueryRun, Strategy
from .search.strategy import Pipeline
from .selection import Hit, Selection, StageResult

__all__ = [
    "DenseIndex",
    "Fusion",
    "Hit",
    "LexicalIndex",
    "Pipeline",
    "Query",
    "QueryRun",
    "Ranking",
    "Retriever",
    "Selection",
    "StageResult",
    "Strategy",
]
