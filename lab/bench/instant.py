"""`shortlist lab bench-instant`: measures answers before all tools are encoded (ADR 22).

The tier `fast` beside `embed` and peers, in turn; a process that opens a saved index; new tools
from the file to the first answer; searches while the encoder catches up. Wall and CPU time of each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep
from typing import Any

import numpy as np

from ...engine import Engine
from ..peers.registry import load_peer
from .material import Material, read_material, write_tools
from .memory import peak_mb
from .timing import Latency, in_turn, warm_up

COMPARED_METRICS, NEW, MANY, CATCHING_UP = 5_000, 4_000, 100_000, 600
PEERS = ("ratel-bm25", "bm25s")
_REPEATS = 5
_READ_AND_ANSWER = """
import json, sys
from time import perf_counter, process_time
from shortlist import Catalog, Engine
start, cpu = perf_counter(), process_time()
engine = Engine.from_tools(Catalog.read(sys.argv[1], keep_ids=True), wait=False)
found = engine.search(sys.argv[2])
print(json.dumps({"s": perf_counter() - start, "cpu_s": process_time() - cpu, "tier": found.tier}))
from shortlist.lab.bench.memory import peak_mb
print(peak_mb())
sys.stdout.flush()
import os
os._exit(0)
"""
_OPEN_AND_ANSWER = """
import sys
from shortlist import Engine
found = Engine.open(sys.argv[1], wait=False).search(sys.argv[2])
print(found.tier, len(found))
sys.stdout.flush()
import os
os._exit(0)
"""


def _process(program: str, *arguments: str) -> tuple[list[str], float, float]:
    """Lines that a new process prints, and its seconds by the clock and of CPU time.

    Python may keep its bytecode, as it does for an installed package.
    """
    kept = {key: one for key, one in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program, *arguments]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(  # noqa: S603
        command, stdout=subprocess.PIPE, text=True, check=True, env=kept
    )
    seconds, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout.splitlines(), seconds, cpu


def compared(engine: Engine, queries: Sequence[str], peers: Sequence[str]) -> dict[str, Any]:
    """Milliseconds a search of `fast`, `embed` and peers, in turn, by the clock and of CPU time."""
    calls: dict[str, Any] = {
        tier: lambda at, tier=tier: engine.search(queries[at], tier=tier)
        for tier in ("fast", "embed")
    }
    for name in peers:
        peer = load_peer(name)
        peer.index(tuple(engine.catalog))
        calls[name] = lambda at, peer=peer: peer.search(queries[at], 10)
    for call in calls.values():
        warm_up(call, len(queries))
    wall = in_turn(calls, len(queries))
    cpu = in_turn(calls, len(queries), clock=process_time)
    return {
        name: {**Latency.of(wall[name]).to_dict(), "cpu_p50_ms": Latency.of(cpu[name]).p50_ms}
        for name in calls
    }


def catching_up(engine: Engine, material: Material, queries: Sequence[str]) -> dict[str, Any]:
    """Searches before, while and after the encoder reads new tools."""

    def times(until: int) -> list[float]:
        found: list[float] = []
        while (not engine.build_progress.done) if until == 0 else len(found) < until:
            start = perf_counter()
            engine.search(queries[len(found) % len(queries)], tier="hybrid")
            found.append((perf_counter() - start) * 1e3)
            sleep(0.02)
        return found

    times(20)
    before = times(150)
    more = list(material.catalog(COMPARED_METRICS + CATCHING_UP))[COMPARED_METRICS:]
    start = perf_counter()
    engine.replace([*engine.catalog, *more], wait=False)
    updated = perf_counter() - start
    meanwhile = times(0)
    seconds = perf_counter() - start
    idle = [*before, *times(150)]
    return {
        "tools": len(more),
        "update_s": round(updated, 3),
        "encoded_s": round(seconds, 1),
        "idle": Latency.of(idle).to_dict(),
        "meanwhile": Latency.of(meanwhile).to_dict(),
        "p95_ratio": round(float(np.percentile(meanwhile, 95) / np.percentile(idle, 95)), 2),
    }


def measure(
    material: Material, folder: Path, index: Path, *, peers: Sequence[str], threads: int, many: int
) -> dict[str, Any]:
    """All figures, see the module.

    Args:
        material: tools and queries.
        folder: for files of this run.
        index: index of the compared tools; created if there is none.
        peers: names.
        threads: CPU threads of the encoder, for one query.
        many: tools of the largest catalog; 0 leaves it out.
    """
    queries = material.queries
    load = [os.getloadavg()[0]]
    if index.exists():
        engine = Engine.open(index, material.catalog(COMPARED_METRICS), threads=threads)
    else:
        engine = Engine.from_tools(material.catalog(COMPARED_METRICS), threads=threads)
    engine.save(index)
    found: dict[str, Any] = {"threads": threads, "tools": COMPARED_METRICS, "queries": len(queries)}
    found["search"] = compared(engine, queries, peers)
    load.append(os.getloadavg()[0])
    found["catching_up"] = catching_up(engine, material, queries)
    engine.close()
    load.append(os.getloadavg()[0])
    # Without the first, which writes the bytecode.
    opened = [_process(_OPEN_AND_ANSWER, str(index), queries[0]) for _ in range(_REPEATS + 1)][1:]
    found["open"] = {
        "s": sorted(round(seconds, 3) for _, seconds, _ in opened),
        "cpu_s": sorted(round(cpu, 3) for _, _, cpu in opened),
        "answer": opened[0][0],
    }
    load.append(os.getloadavg()[0])
    for name, count in (("new", NEW), ("many", many)):
        if count:
            file = folder / f"{name}.jsonl"
            write_tools(material.catalog(count), file)
            lines, _, _ = _process(_READ_AND_ANSWER, str(file), queries[0])
            found[name] = {"tools": count, **json.loads(lines[0]), "peak_mb": float(lines[1])}
            load.append(os.getloadavg()[0])
    return {**found, "peak_mb": round(peak_mb()), "load": [round(one, 1) for one in load]}


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, action="append", required=True)
    parser.add_argument("--queries", type=Path, action="append", required=True)
    parser.add_argument("--n", type=int, default=200, help="most queries")
    parser.add_argument("--threads", type=int, default=1, help="encoder threads, one query")
    parser.add_argument("--many", type=int, default=MANY, help="tools of the largest catalog")
    parser.add_argument("--index", type=Path, help="index of the compared tools; created if absent")
    parser.add_argument(
        "--peer",
        action="append",
        help="peers; by default Ratel's BM25, bm25s",
    )
    asked = parser.parse_args()
    material = read_material(asked.tools, asked.queries, sample=asked.n)
    with TemporaryDirectory() as folder:
        peers = PEERS if asked.peer is None else asked.peer
        place = Path(folder)
        index = asked.index or place / "index"
        figures = measure(
            material, place, index, peers=peers, threads=asked.threads, many=asked.many
        )
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
