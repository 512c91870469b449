"""Cosine over the stock all-MiniLM-L6-v2 with a fixed cut: the algorithm of Tool Attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .libraries import library, stock_minilm

if TYPE_CHECKING:
    from ...catalog import Tool

THRESHOLD = 0.28
"""Least cosine of a selected tool: Tool Attention's published setting, beside its top ten."""


class MiniLMCosine:
    """Id and description embedded as one text, cosine to the query, nothing below .28."""

    name = "minilm-cosine"
    depth_free = True

    def __init__(self) -> None:
        self._library = library("sentence_transformers", self.name)
        self._weights = stock_minilm(self.name)
        library("transformers.utils.logging", self.name).disable_progress_bar()

    def index(self, tools: Sequence[Tool]) -> None:
        """Load the model and embed every tool."""
        self._model = self._library.SentenceTransformer(
            str(self._weights), device="cpu", local_files_only=True
        )
        self._ids = [tool.id for tool in tools]
        self._vectors = self._encode([f"{tool.id}: {tool.description}" for tool in tools])

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = self._model.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors

    def search(self, query: str, k: int) -> list[str]:
        """Rank by cosine, dropping what lies below the threshold."""
        scores = self._vectors @ self._encode([query])[0]
        best = np.argsort(-scores, kind="stable")[:k]
        return [self._ids[i] for i in best if scores[i] >= THRESHOLD]
