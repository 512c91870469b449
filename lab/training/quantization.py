"""Measures the quantisation loss: cosine to the original vectors, and retrieval with both."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models.model_protocols import Encoder
from .evaluate import LabelledSet, ranking_figures


def measure_loss(original: Encoder, quantized: Encoder, task: LabelledSet) -> dict[str, Any]:
    """Compare two encoders over one retrieval task with exact cosine.

    Args:
        original: the encoder before quantisation.
        quantized: the same encoder after it.
        task: tools and requests.

    Returns:
        Mean and least cosine between the encoders' vectors, and the retrieval figures of each in
        percent.
    """
    documents = [tool.text for tool in task.tools]
    vectors = [
        (encoder.encode(task.queries, query=True), encoder.encode(documents))
        for encoder in (original, quantized)
    ]
    found = [
        ranking_figures(asked @ tools.T, task.relevant, task.styles) for asked, tools in vectors
    ]
    return {
        "queries": len(task.queries),
        "documents": len(documents),
        "cosine_queries": _agreement(vectors[0][0], vectors[1][0]),
        "cosine_documents": _agreement(vectors[0][1], vectors[1][1]),
        "retrieval_original": found[0]["all"],
        "retrieval_quantized": found[1]["all"],
    }


def _agreement(a: NDArray[np.float32], b: NDArray[np.float32]) -> dict[str, float]:
    cosine = np.einsum("nd,nd->n", a, b)
    return {"mean": round(float(cosine.mean()), 4), "min": round(float(cosine.min()), 4)}
