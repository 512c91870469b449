"""One bench: measures all figures. Compared figures are measured together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from ...catalog import Catalog, Tool
from ...catalog.tool_document import embedding_text
from ...engine import Engine
from ...errors import EvaluationError
from ...models.onnx_models import default_threads
from .bare import BareEncoder
from .budgets import Budgeted, budgeted
from .comparison import CallComparison, against_bare, against_torch, torch_absence
from .decision import Added, added, undivided
from .install import core_install
from .latency import TierLatency, tier_latencies
from .material import Material, write_tools
from .processes import import_cpu_seconds, run_job
from .stuffing import Stuffing, stuffing
from .updates import REPLACED, Updates, updates

SIZES = (120, 1_000, 5_000, 20_000, 50_000)
UPDATED_SIZE = 13_000
"""Tools that a server is replaced among, where a larger catalog is measured."""
COMPARED_SIZE = 5_000
"""Tools the comparisons, the index build and the cold start are measured over."""
CHANGED = 50
_ENCODER = "bundled"
_JOB_QUERIES = 20
_FIRST_TIER = "hybrid"

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """What to measure.

    Args:
        sizes: catalog sizes.
        threads: CPU threads of the encoder for one request.
        callers: requests under way at once.
        rounds: how often each query is asked in a comparison.
        repeats: processes started for a figure that needs a new one each time.
        fast: whether vectors beyond the compared size are perturbed instead of encoded.

    Raises:
        EvaluationError: no sizes, or one that is too small to measure.
    """

    sizes: tuple[int, ...] = SIZES
    threads: tuple[int, ...] = (1, 2)
    callers: tuple[int, ...] = (1, 8)
    rounds: int = 2
    repeats: int = 9
    fast: bool = False

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < CHANGED:
            raise EvaluationError(f"sizes: {self.sizes}; at least one, each of at least {CHANGED}")

    @property
    def compared(self) -> int:
        """The size comparisons are made at: the largest up to `COMPARED_SIZE`, or the smallest."""
        return max((n for n in self.sizes if n <= COMPARED_SIZE), default=min(self.sizes))


@dataclass(slots=True)
class Bench:
    """All figures of one run.

    Args:
        plan: what was measured.
        material: tools and queries.
        builds: build of each catalog's index.
        latencies: per size, threads, callers and tier.
        bare: requests against the bare session call, per number of threads.
        torch: requests against sentence-transformers, per number of threads.
        torch_absent: why there are no such figures; None if there are.
        decided: time that gate, session and decision add, per size and number of threads.
        start: import, opening and first answer.
        memory: memory of the process that indexed and searched the largest catalog.
        reopened: opening a saved index with some tools changed.
        budgets: answers with a time budget, for each behaviour of the reranker.
        stuffed: places of tools stuffed with requests, per tier.
        updated: one server replaced among many tools.
        install: size of the core install.
        load: the system's load averages over a minute, before and after.
    """

    plan: BenchPlan
    material: Material
    builds: list[dict[str, Any]] = field(default_factory=list)
    latencies: list[TierLatency] = field(default_factory=list)
    bare: list[CallComparison] = field(default_factory=list)
    torch: list[CallComparison] = field(default_factory=list)
    torch_absent: str | None = None
    decided: list[Added] = field(default_factory=list)
    start: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    reopened: dict[str, Any] = field(default_factory=dict)
    budgets: list[Budgeted] = field(default_factory=list)
    stuffed: list[Stuffing] = field(default_factory=list)
    updated: Updates | None = None
    install: dict[str, Any] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    @property
    def compared_build(self) -> Mapping[str, Any]:
        """The build that ran beside the bare encoder."""
        return self.builds[0]


def measure(material: Material, plan: BenchPlan, *, step: Step) -> Bench:
    """Measure everything a plan asks for.

    Args:
        material: tools and queries.
        plan: what to measure.
        step: called with what is being measured now.

    Raises:
        ShortlistError: an engine or a process failed.
    """
    bench = Bench(plan, material, load=[_load()], torch_absent=torch_absence())
    with TemporaryDirectory(prefix="shortlist-bench-") as name:
        folder = Path(name)
        compared, largest = plan.compared, max(plan.sizes)
        saved = {compared: folder / str(compared), largest: folder / str(largest)}
        step(f"indexing {compared:,} tools beside the bare encoder")
        built = _build_beside_bare(material.catalog(compared), saved[compared], folder, material)
        bench.builds.append(built)
        _compare(bench, saved[compared], step)
        step("cold start")
        bench.start = _start(saved[compared], material.queries, plan.repeats)
        step(f"opening with {CHANGED} tools changed")
        bench.reopened = _reopen(saved[compared], material.catalog(compared))
        step("answers under a budget")
        bench.budgets = budgeted(saved[compared], material.queries, cold=plan.repeats)
        step("tools stuffed with requests")
        bench.stuffed = stuffing(saved[compared], material.queries, seed=material.seed)
        if largest != compared:
            step(f"indexing {largest:,} tools in a process of its own")
            perturb = saved[compared] if plan.fast else None
            built = _build(material.catalog(largest), saved[largest], folder, material, perturb)
            bench.builds.append(built)
        bench.memory = {"tools": largest} | {
            name: bench.builds[-1][name] for name in ("peak_mb", "resident_mb")
        }
        for size in sorted(plan.sizes):
            step(f"searching {size:,} tools")
            if size not in saved:
                saved[size] = folder / str(size)
                bench.builds.append(_take_over(saved[largest], saved[size], material.catalog(size)))
            bench.latencies += _latencies(saved[size], plan, material.queries)
            step(f"gate, session and decision over {size:,} tools")
            bench.decided += _decided(saved[size], plan, material.queries)
        if largest >= UPDATED_SIZE:
            step(f"replacing {REPLACED} of {UPDATED_SIZE:,} tools")
            bench.updated = _updated(bench, saved[largest], folder / "updated")
    bench.install = core_install()
    bench.load.append(_load())
    return bench


def _load() -> float:
    return round(os.getloadavg()[0], 2)


def _compare(bench: Bench, folder: Path, step: Step) -> None:
    queries, rounds = bench.material.queries, bench.plan.rounds
    for threads in bench.plan.threads:
        engine = Engine.open(folder, threads=threads)
        step(f"against the bare session call, threads: {threads}")
        bench.bare.append(against_bare(engine, queries, threads=threads, rounds=rounds))
        if bench.torch_absent is None:
            step(f"against sentence-transformers, threads: {threads}")
            bench.torch.append(against_torch(engine, queries, threads=threads, rounds=1))


def _build_beside_bare(
    catalog: Catalog, saved: Path, folder: Path, material: Material
) -> dict[str, Any]:
    """An index built between two halves of the same texts through the bare encoder.

    Every second text is encoded before and the others after, so that changes of the machine's speed
    affect both.
    """
    texts = list(dict.fromkeys(embedding_text(tool) for tool in catalog))
    bare = BareEncoder(_ENCODER, default_threads())
    bare.encode_seconds(texts[:64])
    before = bare.encode_seconds(texts[::2])
    built = _build(catalog, saved, folder, material, None)
    bare_s = before + bare.encode_seconds(texts[1::2])
    return built | {"bare_encoder_s": round(bare_s, 3), "threads": default_threads()}


def _build(
    catalog: Catalog, saved: Path, folder: Path, material: Material, perturb: Path | None
) -> dict[str, Any]:
    tools = folder / "tools.jsonl"
    write_tools(catalog, tools)
    done = run_job(
        "index",
        tools=str(tools),
        folder=str(saved),
        queries=material.queries[:_JOB_QUERIES],
        encoder=_ENCODER,
        threads=None,
        perturb=None if perturb is None else str(perturb),
        seed=material.seed,
    )
    return {
        "tools": len(catalog),
        "synthetic": material.synthetic(len(catalog)),
        "seconds": round(done["seconds"], 3),
        "encoded": done["encoded"],
        "perturbed": perturb is not None,
        "peak_mb": round(done["peak_mb"], 1),
        "resident_mb": {name: round(mb, 1) for name, mb in done["resident_mb"].items()},
        "disk_mb": _disk_mb(saved),
    }


def _take_over(source: Path, saved: Path, catalog: Catalog) -> dict[str, Any]:
    """A smaller index with vectors of a larger one."""
    start = perf_counter()
    engine = Engine.open(source, catalog)
    seconds = perf_counter() - start
    engine.save(saved)
    return {
        "tools": len(catalog),
        "seconds": round(seconds, 3),
        "encoded": engine.build_progress.newly_encoded,
        "disk_mb": _disk_mb(saved),
    }


def _disk_mb(folder: Path) -> float:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return round(size / 1e6, 1)


def _latencies(folder: Path, plan: BenchPlan, queries: Sequence[str]) -> list[TierLatency]:
    found = []
    for threads in plan.threads:
        engine = Engine.open(folder, threads=threads)
        for callers in plan.callers:
            found += tier_latencies(engine, queries, threads=threads, callers=callers)
    return found


def _updated(bench: Bench, source: Path, folder: Path) -> Updates:
    _take_over(source, folder, bench.material.catalog(UPDATED_SIZE))
    return updates(folder, bench.material.queries, threads=bench.plan.threads[0])


def _decided(folder: Path, plan: BenchPlan, queries: Sequence[str]) -> list[Added]:
    asked = undivided(queries)
    if not asked:
        return []
    return [added(folder, asked, threads=threads, rounds=plan.rounds) for threads in plan.threads]


def _start(folder: Path, queries: Sequence[str], repeats: int) -> dict[str, Any]:
    numpy_s, beyond_s = import_cpu_seconds(repeats)
    runs = [
        run_job("first_answer", folder=str(folder), query=query, tier=_FIRST_TIER)
        for query in (list(queries) * repeats)[:repeats]
    ]
    medians = {name: round(float(np.median([run[name] for run in runs])), 4) for name in runs[0]}
    return {
        "import_numpy_cpu_s": round(numpy_s, 4),
        "import_beyond_numpy_cpu_s": round(beyond_s, 4),
        "tier": _FIRST_TIER,
        "repeats": repeats,
        "first_answer": medians,
    }


def _reopen(folder: Path, catalog: Catalog) -> dict[str, Any]:
    step = len(catalog) // CHANGED
    changed = {
        tool.id: Tool.from_dict(
            tool.to_dict() | {"description": f"Revision {number}. {tool.description}"}
        )
        for number, tool in enumerate(catalog[: step * CHANGED : step])
    }
    now = Catalog(changed.get(tool.id, tool) for tool in catalog)
    start = perf_counter()
    engine = Engine.open(folder, now)
    seconds = perf_counter() - start
    return {
        "changed": len(changed),
        "encoded": engine.build_progress.newly_encoded,
        "seconds": round(seconds, 3),
    }
