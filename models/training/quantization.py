"""What quantisation costs: cosine to the original vectors, and retrieval with both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog import read_tools
from ...retrieval.document import embedding_text
from ..encoder import Encoder

CUTOFFS = (5, 10)


def measure_loss(
    original: Encoder,
    quantized: Encoder,
    queries: Sequence[str],
    relevant: Sequence[set[int]],
    documents: Sequence[str],
) -> dict[str, Any]:
    """Compare two encoders over one retrieval task with exact cosine.

    Args:
        original: the encoder before quantisation.
        quantized: the same encoder after it.
        queries: the queries.
        relevant: for each query, positions of the documents that answer it.
        documents: what is searched.

    Returns:
        Mean and least cosine between the encoders' vectors, and the retrieval figures of each in
        percent.
    """
    vectors = [
        (encoder.encode(queries, query=True), encoder.encode(documents))
        for encoder in (original, quantized)
    ]
    (query_a, document_a), (query_b, document_b) = vectors
    return {
        "queries": len(queries),
        "documents": len(documents),
        "cosine_queries": _agreement(query_a, query_b),
        "cosine_documents": _agreement(document_a, document_b),
        "retrieval_original": _retrieval(query_a, document_a, relevant),
        "retrieval_quantized": _retrieval(query_b, document_b, relevant),
    }


def read_task(folder: Path) -> tuple[list[str], list[set[int]], list[str]]:
    """Read queries.jsonl and judged_tools.jsonl as queries, relevant positions and documents.

    Args:
        folder: holds the two files; queries that nothing answers are left out. A
            document is the text an engine encodes of the tool.
    """
    tools = read_tools(folder / "judged_tools.jsonl").tools
    rows = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    place = {tool.id: i for i, tool in enumerate(tools)}
    rows = [row for row in rows if row["relevant"]]
    return (
        [row["query"] for row in rows],
        [{place[i] for i in row["relevant"]} for row in rows],
        [embedding_text(tool) for tool in tools],
    )


def _agreement(a: NDArray[np.float32], b: NDArray[np.float32]) -> dict[str, float]:
    cosine = np.einsum("nd,nd->n", a, b)
    return {"mean": round(float(cosine.mean()), 4), "min": round(float(cosine.min()), 4)}


def _retrieval(
    queries: NDArray[np.float32], documents: NDArray[np.float32], relevant: Sequence[set[int]]
) -> dict[str, float]:
    ranked = np.argsort(-(queries @ documents.T), axis=1, kind="stable")
    figures = {
        "hit@1": [float(row[0] in wanted) for row, wanted in zip(ranked, relevant, strict=True)]
    }
    for k in CUTOFFS:
        figures[f"recall@{k}"] = [
            len(wanted.intersection(row[:k].tolist())) / len(wanted)
            for row, wanted in zip(ranked, relevant, strict=True)
        ]
    return {name: round(100 * float(np.mean(values)), 1) for name, values in figures.items()}
