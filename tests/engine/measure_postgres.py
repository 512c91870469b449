"""Times a catalog in PostgreSQL: `python -m shortlist.tests.engine.measure_postgres`.

Arguments: the number of tools, and files of tools and of queries. Missing tools are recombined from
real ones. Sums of token vectors stand in for an encoder, so that their vectors are as long and as
many as those of the bundled one.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from shortlist import Config, Engine, Tool
from shortlist.catalog import read_tools
from shortlist.evals.lab.bench.growth import grow
from shortlist.models import Encoder
from shortlist.models.loading import static_encoder
from shortlist.retrieval.postgres.database import single_connection

from ..postgres import running_server

QUERIES = 150


def print_latency(name: str, engine: Engine, queries: Sequence[str], **limits: Any) -> None:
    """Hybrid searches without the encoder, after some that nobody measures."""
    view = engine.view(**limits)
    times = []
    for query in [*queries[:15], *queries]:
        timings = view.search(query, tier="hybrid").timings
        times.append(timings["joint"] + timings["fusion"])
    p50, p95 = np.percentile(times[15:], [50, 95])
    sys.stdout.write(f"{name}: hybrid without the encoder, ms: p50 {p50:.1f}, p95 {p95:.1f}\n")


def print_seconds(name: str, start: float, engine: Engine) -> None:
    """The time since `start`, and what was encoded."""
    encoded = engine.build_progress.newly_encoded
    sys.stdout.write(f"{name}: {perf_counter() - start:.2f} s, {encoded} texts encoded\n")


def measure(dsn: str, tools: Sequence[Tool], queries: Sequence[str]) -> None:
    """Print the times of one catalog."""
    static = static_encoder()
    encoder = Encoder.of(
        static.encode_for_teacher,
        dim=static.teacher_dim,
        name="lifted",
        embed_query=lambda texts: static.encode_for_teacher(texts, query=True),
    )

    def config(tenant: str) -> Config:
        index = {"backend": "postgres", "dsn": dsn, "tenant": tenant, "example_queries": []}
        return Config(index=index, encoder=encoder, trust={"scan": False})

    start = perf_counter()
    with Engine.from_tools(tools, config("all")) as engine:
        print_seconds(f"{len(tools):,} tools written", start, engine)
        with single_connection(dsn) as connection:
            connection.execute("VACUUM ANALYZE")
        ids = [tool.id for tool in random.Random(0).sample(tools, 200)]
        print_latency("all tools", engine, queries)
        print_latency("200 ids", engine, queries, allowed=ids)
        new_tools = [Tool(f"act_{number}", "new", f"Acts as {number}") for number in range(30)]
        start = perf_counter()
        engine.replace_server("new", new_tools, add=True)
        print_seconds("a server of 30 tools", start, engine)
    start = perf_counter()
    known = random.Random(1).sample(tools, min(500, len(tools)))
    with Engine.from_tools(known, config("new")) as engine:
        print_seconds("a new tenant of 500 known tools", start, engine)
    with Engine.from_tools(tools[: len(tools) // 20], config("part")) as engine:
        print_latency("a tenant of 5 %", engine, queries)


def main(count: str, tools_file: str, queries_file: str) -> None:
    """Start a server, fill it, and measure."""
    tools = grow(read_tools(tools_file, keep_ids=True, strict=False).tools, int(count))
    rows = map(json.loads, Path(queries_file).read_text(encoding="utf-8").splitlines())
    queries = [row["query"] for row in rows][:QUERIES]
    with TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        measure(server.new_database(), tools, queries)


if __name__ == "__main__":
    main(*sys.argv[1:])
