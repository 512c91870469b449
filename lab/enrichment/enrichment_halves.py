"""`shortlist lab enrichment-halves`: what tools without example queries lose beside others.

Half of the servers, drawn at random, have example queries. Queries for tools of the other half are
compared with a catalog in which no tool has example queries.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog import Catalog, Tool
from ...config import Config, IndexConfig, TrustConfig
from ...engine import Engine
from ...enrichment import ExampleQueryMatcher, ExampleQueryRow, read_example_queries
from ...evals.report import Table
from ...indexing.builder import Builder
from ..publishing.record import Record, provenance, write_record
from .enrichment_gain import Asked, measured, read_asked, read_catalog

_COLUMNS = (
    *("tier", "other half: hit@1", "other half: recall@10", "lowest hit@1", "lowest recall@10"),
    *("half with queries: hit@1", "half with queries: recall@10"),
)


def halves(
    tools: Sequence[Tool],
    asked: Sequence[Asked],
    rows: Sequence[ExampleQueryRow],
    draws: int = 10,
    seed: int = 0,
) -> tuple[Table, Mapping[str, Any]]:
    """Changes of hit@1 and recall@10 against a catalog without example queries, in points.

    Args:
        tools: a catalog.
        asked: its queries. Each counts for the half that holds all tools that serve it.
        rows: example queries; row by tool id.
        draws: number of random halves.
        seed: of the draws.
    """
    config = Config(trust=TrustConfig(scan=False), index=IndexConfig(example_queries=()))
    catalog, builder = Catalog(tools), Builder(config)
    plain = Engine(builder, builder.begin(catalog))
    without = {tier: measured([plain], tier, asked)[0][0] for tier in plain.tiers}
    server = {tool.id: tool.server for tool in tools}
    servers = sorted({tool.server or "" for tool in tools})
    changes: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    # The vectors of all example queries, so that each draw need not encode its own.
    whole = _engine(config, catalog, rows, plain)
    generator = np.random.default_rng(seed)
    for _ in range(draws):
        drawn = set(generator.permutation(servers)[: len(servers) // 2].tolist())
        some = [row for row in rows if server.get(row.tool) in drawn]
        engine = _engine(config, catalog, some, whole)
        shares = [np.mean([server[one] in drawn for one in query.relevant]) for query in asked]
        for tier in plain.tiers:
            change = measured([engine], tier, asked)[0][0] - without[tier]
            parts = [change[np.equal(shares, share)].mean(axis=0) for share in (0, 1)]
            changes[tier].append(100 * np.concatenate(parts))
    means = {tier: np.mean(found, axis=0) for tier, found in changes.items()}
    lowest = {tier: np.min(found, axis=0) for tier, found in changes.items()}
    lines = tuple(
        (tier, *(f"{value:+.1f}" for value in (*mean[:2], *lowest[tier][:2], *mean[2:])))
        for tier, mean in means.items()
    )
    result = {
        "tools": len(catalog),
        "queries": len(asked),
        "draws": draws,
        "tiers": {tier: np.round(found, 2).tolist() for tier, found in changes.items()},
    }
    return Table(_COLUMNS, lines), result


def _engine(
    config: Config, catalog: Catalog, rows: Iterable[ExampleQueryRow], known: Engine
) -> Engine:
    builder = Builder(config)
    builder.example_queries = ExampleQueryMatcher(rows)
    return Engine(builder, builder.begin(catalog, vectors=known.view().admission.index.vectors))


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, nargs="+", required=True)
    parser.add_argument("--queries", type=Path, nargs="+", required=True)
    parser.add_argument("--example-queries", nargs="+", required=True)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--title", required=True)
    parser.add_argument("--record", type=Path, required=True, metavar="FILE.json")
    given = parser.parse_args()
    origin = provenance(["shortlist", "lab", "enrichment-halves", *sys.argv[1:]])
    tools = read_catalog(given.tools)
    rows = read_example_queries(given.example_queries)
    table, result = halves(tools, read_asked(given.queries, tools), [*rows], given.draws)
    path = write_record(
        Record(given.record.stem, given.title, table, result, origin), given.record.parent
    )
    sys.stderr.write(f"{path}: {json.dumps(table.rows)}\n")


if __name__ == "__main__":
    main()
