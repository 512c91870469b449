"""Jobs that run in a process of their own: `python -m shortlist.lab.bench.jobs NAME ARGS`.

Arguments are a JSON object, the result is one on stdout. Imports are inside the jobs, because their
time is part of the measurement.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from .memory import peak_mb, resident_mb


def index(
    *,
    tools: str,
    folder: str,
    queries: list[str],
    encoder: str,
    threads: int | None,
    perturb: str | None,
    seed: int,
) -> dict[str, Any]:
    """Index a file of tools, search in every tier, and save.

    Args:
        tools: JSON lines.
        folder: where to save.
        queries: searched for in every tier.
        encoder: encoder of the configuration.
        threads: CPU threads of the configuration.
        perturb: a saved index; what it does not hold gets its vectors, perturbed, unencoded.
        seed: random seed of the perturbation.
    """
    resident = {"start": resident_mb()}
    from ...catalog import Catalog
    from ...engine import Engine

    resident["imports"] = resident_mb()
    catalog = Catalog.read(tools, keep_ids=True)
    resident["tools"] = resident_mb()
    start = perf_counter()
    if perturb is None:
        engine = Engine.from_tools(catalog, encoder=encoder, threads=threads)
    else:
        engine = _perturbed(catalog, perturb, seed, encoder=encoder, threads=threads)
    seconds = perf_counter() - start
    resident["index"] = resident_mb()
    for query in queries:
        for tier in engine.tiers:
            engine.search(query, tier=tier)
    resident["searches"] = resident_mb()
    peak = peak_mb()
    engine.save(folder)
    return {
        "seconds": seconds,
        "encoded": engine.build_progress.newly_encoded,
        "peak_mb": peak,
        "resident_mb": resident,
    }


def _perturbed(catalog: Any, folder: str, seed: int, **settings: Any) -> Any:
    from ...catalog.tool_document import embedding_text
    from ...config import Config
    from ...engine import Engine
    from ...errors import EvaluationError
    from ...indexing.builder import Builder
    from ...retrieval.store.vectors import Vectors, text_key
    from ...retrieval.store.versions import read
    from .perturbed import PerturbedEncoder

    saved = read(Path(folder))
    if (known := saved.vectors) is None:
        raise EvaluationError(f"{folder}: saved without vectors, so there are none to perturb")
    encoder = PerturbedEncoder(known.values, known.encoder_fingerprint, seed=seed)
    texts = {text_key(text := embedding_text(tool)): text for tool in catalog}
    fresh = {key: text for key, text in texts.items() if key not in known.rows}
    if fresh:
        added = Vectors(
            encoder.encode(list(fresh.values())), tuple(fresh), known.encoder_fingerprint
        )
        known = Vectors.joined([known, added])
    builder = Builder(Config(**settings))
    return Engine(builder, builder.begin(catalog, vectors=known))


def first_answer(*, folder: str, query: str, tier: str) -> dict[str, Any]:
    """Import, open a saved index, answer the first query."""
    start, start_cpu = perf_counter(), process_time()
    from ...engine import Engine

    imported = perf_counter()
    engine = Engine.open(folder)
    opened = perf_counter()
    engine.search(query, tier=tier)
    answered, answered_cpu = perf_counter(), process_time()
    return {
        "import_s": imported - start,
        "open_s": opened - imported,
        "first_query_s": answered - opened,
        "total_s": answered - start,
        "cpu_s": answered_cpu - start_cpu,
        "peak_mb": peak_mb(),
    }


def budgeted_answer(*, folder: str, query: str, budget_ms: float) -> dict[str, Any]:
    """Open a saved index; the first answer of the process, under a budget."""
    from ...engine import Engine

    engine = Engine.open(folder)
    start = perf_counter()
    answer = engine.search(query, tier="hybrid", budget_ms=budget_ms)
    ms = (perf_counter() - start) * 1e3
    return {"ms": ms, "tier": answer.tier, "tools": len(engine.catalog)}


JOBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "index": index,
    "first_answer": first_answer,
    "budgeted_answer": budgeted_answer,
}


def main() -> None:
    """Run the job named on the command line."""
    name, arguments = sys.argv[1:]
    json.dump(JOBS[name](**json.loads(arguments)), sys.stdout)


if __name__ == "__main__":
    main()
