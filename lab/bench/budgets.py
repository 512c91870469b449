"""Measures answers with a time budget, with rerankers that hang, are slow, or are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import perf_counter, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...engine import Engine
from ...errors import ModelError
from ...indexing.builder import Builder
from ...indexing.stage_models import StageModels
from ...models import Reranker
from .processes import run_job

BUDGET_MS = 50.0
CALLS = 200
OVER_MS = 10.0
"""Milliseconds beyond the budget within which 99 in 100 answers must be there."""
COLD = "new process"
CASES: Mapping[str, str] = {"hangs": "hangs", "slow": "is slow", "missing": "is missing"}
"""What a reranker does, and how a report says it."""
_TIER = "rerank"
_SLOW_S = 0.015


@dataclass(frozen=True, slots=True)
class Budgeted:
    """Times of answers with a budget.

    Args:
        case: behaviour of the reranker, or `COLD`.
        tools: number of tools in the catalog.
        calls: number of requests, each with `BUDGET_MS`.
        p50_ms: median.
        p99_ms: of whole answers.
        ran: tier to the number of its answers.
    """

    case: str
    tools: int
    calls: int
    p50_ms: float
    p99_ms: float
    ran: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "case": self.case,
            "tools": self.tools,
            "budget_ms": BUDGET_MS,
            "calls": self.calls,
            "p50_ms": round(self.p50_ms, 2),
            "p99_ms": round(self.p99_ms, 2),
            "ran": dict(self.ran),
        }


class _WaitingReranker:
    """A reranker that waits and gives every text the same score."""

    name = fingerprint = "waiting"

    def __init__(self, wait: Callable[[int], object]) -> None:
        self._wait = wait

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:  # noqa: ARG002
        self._wait(len(texts))
        return np.zeros(len(texts), np.float32)


class _Models(StageModels):
    """The bundled models and a reranker.

    Args:
        config: names the reranker.
        load: loads it.
    """

    def __init__(self, config: Config, load: Callable[[], Reranker]) -> None:
        self._load_reranker = load
        super().__init__(config)

    def reranker(self, name: str) -> Reranker:  # noqa: ARG002
        return self._load_reranker()

    def _check(self) -> None:
        """A reranker that is missing is missing only at a search."""


def _missing() -> Reranker:
    sleep(0.2)
    raise ModelError("cannot connect")


def budgeted(folder: Path, queries: Sequence[str], *, cold: int) -> list[Budgeted]:
    """Measure every case with a saved index and a new engine.

    Args:
        folder: folder of the index.
        queries: texts to search for, in turn.
        cold: processes started for the first answer of a process.
    """
    release = Event()
    loads: dict[str, Callable[[], Reranker]] = {
        "hangs": lambda: _WaitingReranker(lambda _: release.wait()),
        "slow": lambda: _WaitingReranker(lambda count: sleep(_SLOW_S * count)),
        "missing": _missing,
    }
    found = [_case(case, folder, queries, load) for case, load in loads.items()]
    release.set()
    runs = [
        run_job("budgeted_answer", folder=str(folder), query=query, budget_ms=BUDGET_MS)
        for query in (list(queries) * cold)[:cold]
    ]
    tiers = Counter(run["tier"] for run in runs)
    tools = int(runs[0]["tools"])
    return [*found, _summary(COLD, tools, [run["ms"] for run in runs], tiers)]


def _case(
    case: str, folder: Path, queries: Sequence[str], load: Callable[[], Reranker]
) -> Budgeted:
    config = Config(reranker="waiting")
    builder = Builder(config, _Models(config, load))
    build, _ = builder.open(folder)
    engine = Engine(builder, build)
    times: list[float] = []
    ran: Counter[str] = Counter()
    for call in range(CALLS):
        start = perf_counter()
        answer = engine.search(queries[call % len(queries)], tier=_TIER, budget_ms=BUDGET_MS)
        times.append((perf_counter() - start) * 1e3)
        ran[answer.tier] += 1
    return _summary(case, len(engine.catalog), times, ran)


def _summary(case: str, tools: int, times: Sequence[float], ran: Mapping[str, int]) -> Budgeted:
    p50, p99 = np.percentile(times, [50, 99])
    return Budgeted(case, tools, len(times), float(p50), float(p99), ran)
