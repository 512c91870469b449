"""`shortlist lab enrichment-gain`: measures a catalog with and without example queries."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog import Catalog, Tool, read_tools
from ...config import Config, IndexConfig, TrustConfig
from ...engine import Engine
from ...enrichment import ExampleQueryMatcher, ExampleQueryRow, read_example_queries
from ...evals.dataset import file_lines, parse_object, read_tool_files
from ...evals.report import Table
from ...indexing.builder import Builder
from ...retrieval import ranking_metrics
from ..publishing.record import Record, provenance, write_record
from .library import LEAST_QUERIES, single_tool_queries

_DEPTH = 10
_COLUMNS = (
    *("tier", "hit@1 without", "hit@1 with", "change", "recall@10 without", "recall@10 with"),
    *("change ", "ms without", "ms with"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A labelled query.

    Args:
        text: of the query.
        relevant: ids of the tools that serve it.
    """

    text: str
    relevant: tuple[str, ...]


def read_catalog(paths: Iterable[Path]) -> list[Tool]:
    """Tools of files of rows, and of folders with one answer to `tools/list` for each server."""
    tools: list[Tool] = []
    for path in paths:
        if path.is_dir():
            for file in sorted(path.glob("*.json")):
                tools += read_tools(file, server=file.stem, strict=False).tools
        else:
            tools += read_tool_files([path])[0]
    return tools


def read_asked(paths: Iterable[Path], tools: Sequence[Tool]) -> list[Asked]:
    """Queries with `relevant` or `tool`; those that no tool of the catalog serves are left out."""
    known = {tool.id for tool in tools}
    asked = []
    for path in paths:
        for _, line in file_lines(path):
            row = parse_object(line)
            relevant = tuple(
                one for one in row.get("relevant") or [row.get("tool")] if one in known
            )
            if relevant:
                asked.append(Asked(str(row["query"]), relevant))
    return asked


def sub_catalog(data: Path, size: int, seed: int = 0) -> tuple[list[Tool], list[ExampleQueryRow]]:
    """The judged tools of mcp_dev with servers of its training sets, all with example queries.

    Args:
        data: folder with train and eval.
        size: tools, at least; whole servers are drawn until there are as many.
        seed: random seed of the draw.
    """
    judged = read_catalog([data / "eval" / "mcp_dev" / "judged_tools.jsonl"])
    rows = [*read_example_queries([data / "eval" / "mcp_dev" / "enrichments.jsonl"])]
    queries = single_tool_queries(data / "train" / "mcp")
    servers: dict[str, list[Tool]] = defaultdict(list)
    for tool in read_catalog([data / "train" / "mcp" / "tools.jsonl"]):
        if len(queries.get(tool.id, ())) >= LEAST_QUERIES:
            servers[tool.server or ""].append(tool)
    names = sorted(servers)
    random.Random(seed).shuffle(names)
    tools = [*judged]
    for name in names:
        if len(tools) >= size:
            break
        tools += servers[name]
        rows += [
            ExampleQueryRow(tool=tool.id, queries=tuple(queries[tool.id])) for tool in servers[name]
        ]
    return tools, rows


def gain(
    tools: Sequence[Tool], asked: Sequence[Asked], examples: ExampleQueryMatcher, seed: int = 0
) -> tuple[Table, Mapping[str, Any]]:
    """Figures of every tier without and with example queries, and what they change.

    Args:
        tools: a catalog.
        asked: its queries. Each is put to both engines in turn, one first and then the other.
        examples: example queries of the second engine.
        seed: random seed of the bootstrap.
    """
    config = Config(trust=TrustConfig(scan=False), index=IndexConfig(example_queries=()))
    catalog, builder = Catalog(tools), Builder(config)
    plain = Engine(builder, builder.begin(catalog))
    other = Builder(config)
    other.example_queries = examples
    start = perf_counter()
    rich = Engine(other, other.begin(catalog, vectors=plain.view().admission.index.vectors))
    seconds = perf_counter() - start
    index = rich.view().admission.index
    rows: list[tuple[Any, ...]] = []
    result: dict[str, Any] = {
        "tools": len(catalog),
        "tools_with_queries": len(index.example_queries),
        "queries": len(asked),
        "queries_for_tools_with_queries": sum(
            any(one in index.example_queries for one in query.relevant) for query in asked
        ),
        "seconds_of_index_with_known_vectors": round(seconds, 2),
        "tiers": {},
    }
    for tier in plain.tiers:
        scores, times = measured([plain, rich], tier, asked)
        changes = scores[1] - scores[0]
        low, high = ranking_metrics.bootstrap_interval(changes, seed=seed)
        before, after = (100 * part.mean(axis=0) for part in scores)
        middle = np.median(times, axis=0)
        cells = [tier]
        for column in range(2):
            change = 100 * changes.mean(axis=0)[column]
            ends = f"{100 * low[column]:+.1f} to {100 * high[column]:+.1f}"
            cells += [f"{before[column]:.1f}", f"{after[column]:.1f}", f"{change:+.1f} ({ends})"]
        rows.append((*cells, f"{middle[0]:.2f}", f"{middle[1]:.2f}"))
        result["tiers"][tier] = {
            "without": before.round(2).tolist(),
            "with": after.round(2).tolist(),
            "low": (100 * low).round(2).tolist(),
            "high": (100 * high).round(2).tolist(),
            "ms": middle.round(4).tolist(),
            "median_of_ratios": round(float(np.median(times[:, 1] / times[:, 0])), 4),
        }
    return Table(_COLUMNS, tuple(rows)), result


def measured(
    engines: Sequence[Engine], tier: str, asked: Sequence[Asked]
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Hit@1 and recall@10 of each query, an array for each engine, and times.

    Args:
        engines: queries are put to each in turn.
        tier: of the searches.
        asked: the queries.

    Returns:
        Scores of shape (queries, 2) for each engine; milliseconds, shape (queries, engines).
    """
    found: list[list[tuple[str, ...]]] = [[] for _ in engines]
    times = np.zeros((len(asked), len(engines)))
    for engine in engines:
        engine.search(asked[0].text, tier=tier, k=_DEPTH)
    for number, query in enumerate(asked):
        order = [*enumerate(engines)][:: 1 if number % 2 else -1]
        for place, engine in order:
            start = perf_counter()
            ids = engine.search(query.text, tier=tier, k=_DEPTH).ids
            times[number, place] = 1000 * (perf_counter() - start)
            found[place].append(ids)
    relevant = [query.relevant for query in asked]
    judged = [ranking_metrics.judge(some, relevant, depth=_DEPTH) for some in found]
    return [
        np.column_stack((ranking_metrics.hit_at(one, 1), ranking_metrics.recall_at(one, _DEPTH)))
        for one in judged
    ], times


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, nargs="+", help="files of rows, folders of dumps")
    parser.add_argument(
        "--sub-catalog",
        type=Path,
        metavar="DATA",
        help="catalog of mcp_dev there",
    )
    parser.add_argument("--size", type=int, default=1000, help="least number of its tools")
    parser.add_argument("--queries", type=Path, nargs="+", required=True)
    parser.add_argument("--example-queries", nargs="+", default=["library"])
    parser.add_argument("--title", required=True)
    parser.add_argument("--record", type=Path, required=True, metavar="FILE.json")
    given = parser.parse_args()
    origin = provenance(["shortlist", "lab", "enrichment-gain", *sys.argv[1:]])
    if given.sub_catalog is not None:
        tools, rows = sub_catalog(given.sub_catalog, given.size)
        examples = ExampleQueryMatcher(rows)
    else:
        tools = read_catalog(given.tools)
        examples = ExampleQueryMatcher.read(given.example_queries)
    table, result = gain(tools, read_asked(given.queries, tools), examples)
    path = write_record(
        Record(given.record.stem, given.title, table, result, origin), given.record.parent
    )
    sys.stderr.write(f"{path}: {json.dumps(result)}\n")


if __name__ == "__main__":
    main()
