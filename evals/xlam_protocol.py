"""The xlam protocol: hit@1 and hit@3 in pools of increasing size.

Figures were published for a hybrid selector on Salesforce/xlam-function-calling-60k in buckets of
pool size. Their sample and padding are not, so both are decided and stated here; README.md beside
this file gives the reasons.

- A query's own list is its pool in the buckets 2-5 and 6-15: rows with a list of that size.
- Above, rows of any size have their own functions padded to 50, 100, 200, 300 and 1,000 with
  functions of other rows. Pools of one row are nested. A function that bears the name of one of the
  row's own is never padding: answers are names, so it could not be told from a right one.
- The last pool is every function of the file, where only the row's own definitions are right.
- Two definitions are one function when name and description agree but for case and spacing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Any

from ..catalog import Catalog, Tool
from ..errors import CatalogError, EvaluationError
from ..settings import RERANK_TIER
from .dataset import LabelledQuery, RowProblem
from .report import Cell, Table, rounded
from .runner import QueryOutcome, Summary, measure, summarise, tier_method
from .xlam_functions import tool_of_function
from .xlam_rows import XlamRow

if TYPE_CHECKING:
    from ..engine import Engine

SAMPLE_SIZE = 400
"""Default number of queries per pool size."""

PADDED_SIZES = (50, 100, 200, 300, 1000)
WHOLE_CATALOG = "all"
OWN_LIST_SIZES = {"2-5": range(2, 6), "6-15": range(6, 16)}
BUCKETS = {"50-200": ("50", "100", "200"), "200+": ("200", "300")}

PUBLISHED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "BM25": {"200+": (80.0, 87.5)},
    "embeddings": {"200+": (81.3, 93.8)},
    "hybrid": {"200+": (80.0, 90.0)},
    "reranked": {"200+": (87.5, 97.5)},
}
"""Published hit@1 and hit@3 in per cent. No other figures were published."""


@dataclass(frozen=True, slots=True)
class XlamPool:
    """The queries of one pool size.

    Args:
        name: the size, such as `50`, the range of sizes, or `all` for every function.
        queries: the queries, each restricted to its own pool; None as pool stands for all.
    """

    name: str
    queries: tuple[LabelledQuery, ...]


@dataclass(frozen=True, slots=True)
class XlamSet:
    """Data of the protocol.

    Args:
        catalog: every distinct function of the file.
        pools: by rising size; sizes above the catalog's are left out.
        rows: number of rows read, malformed ones included.
        malformed: rows left out, with the reason.
        sample: queries per pool size; fewer if the file has fewer.
        seed: seed of the sample and of the padding.
    """

    catalog: Catalog
    pools: tuple[XlamPool, ...]
    rows: int
    malformed: tuple[RowProblem, ...]
    sample: int
    seed: int


@dataclass(frozen=True, slots=True)
class _UsableRow:
    """A row that may be drawn for a sample.

    Args:
        number: where it is in the file, counted from 1.
        query: the request.
        own: ids of the functions in its own list.
        relevant: ids of those that were called.
    """

    number: int
    query: str
    own: tuple[str, ...]
    relevant: tuple[str, ...]


class _Sample:
    """The rows that a seed favours most, however many pass: bounded, and independent of order.

    Args:
        size: maximum number of rows.
        seed: seed of the sample.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, seed
        self._heap: list[tuple[int, int, _UsableRow]] = []

    def offer(self, row: _UsableRow) -> None:
        digest = blake2b(f"{self._seed} {row.number}".encode(), digest_size=8).digest()
        entry = (-int.from_bytes(digest, "big"), -row.number, row)
        if len(self._heap) < self._size:
            heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapreplace(self._heap, entry)

    def rows(self) -> list[_UsableRow]:
        return sorted((row for _, _, row in self._heap), key=lambda row: row.number)


class _Functions:
    """Distinct functions in order of appearance, each as a tool with a unique id.

    Attributes:
        tools: id to tool.
    """

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self.tools: dict[str, Tool] = {}

    def tool_id(self, function: Mapping[str, Any]) -> str:
        key = _identity(function)
        if key not in self._ids:
            tool = tool_of_function(function)
            name, nth = tool.name, 2
            while name in self.tools:
                name, nth = f"{tool.name}~{nth}", nth + 1
            self.tools[name] = tool.with_id(name)
            self._ids[key] = name
        return self._ids[key]


def prepare(
    rows: Iterable[XlamRow | RowProblem], *, sample: int = SAMPLE_SIZE, seed: int = 0
) -> XlamSet:
    """Draw queries and build their pools in one pass over the rows.

    Args:
        rows: rows from `stream_rows`.
        sample: queries per pool size, at least one.
        seed: seed of the sample and of the padding.

    Raises:
        EvaluationError: no row is usable.
    """
    functions = _Functions()
    own_list_samples = {bucket: _Sample(sample, seed) for bucket in OWN_LIST_SIZES}
    any_size_sample = _Sample(sample, seed)
    malformed: list[RowProblem] = []
    count = 0
    for row in rows:
        count += 1
        if isinstance(row, RowProblem):
            malformed.append(row)
            continue
        try:
            usable_row = _usable_row(row, functions)
        except CatalogError as error:
            malformed.append(RowProblem("tools", row.number, str(error)))
            continue
        any_size_sample.offer(usable_row)
        for bucket, sizes in OWN_LIST_SIZES.items():
            if len(usable_row.own) in sizes:
                own_list_samples[bucket].offer(usable_row)
    if not functions.tools:
        first = f"; first problem: {malformed[0]}" if malformed else ""
        raise EvaluationError(f"no usable row among {count}{first}")
    catalog = Catalog(functions.tools.values())
    pools = [
        XlamPool(bucket, tuple(_query(row, row.own) for row in bucket_sample.rows()))
        for bucket, bucket_sample in own_list_samples.items()
    ]
    pools.extend(_padded(any_size_sample.rows(), catalog, seed))
    whole_catalog_queries = tuple(_query(row, None) for row in any_size_sample.rows())
    pools.append(XlamPool(WHOLE_CATALOG, whole_catalog_queries))
    filled = tuple(pool for pool in pools if pool.queries)
    return XlamSet(catalog, filled, count, tuple(malformed), sample, seed)


def _usable_row(row: XlamRow, functions: _Functions) -> _UsableRow:
    own = [(function["name"], functions.tool_id(function)) for function in row.functions]
    answers = set(row.answers)
    return _UsableRow(
        row.number,
        row.query,
        tuple(dict.fromkeys(tool_id for _, tool_id in own)),
        tuple(dict.fromkeys(tool_id for name, tool_id in own if name in answers)),
    )


def _identity(function: Mapping[str, Any]) -> tuple[str, str]:
    name, description = function["name"], function.get("description") or ""
    return " ".join(name.casefold().split()), " ".join(str(description).casefold().split())


def _query(row: _UsableRow, pool: tuple[str, ...] | None) -> LabelledQuery:
    return LabelledQuery(row.query, row.relevant, pool, {}, "xlam", row.number)


def _padded(rows: Sequence[_UsableRow], catalog: Catalog, seed: int) -> list[XlamPool]:
    sizes = [size for size in PADDED_SIZES if size < len(catalog)]
    queries: dict[int, list[LabelledQuery]] = {size: [] for size in sizes}
    for row in rows:
        own_names = {catalog.get(tool_id).name.casefold() for tool_id in row.own}
        order = random.Random(f"{seed} {row.number}").sample(range(len(catalog)), len(catalog))
        padding: list[str] = []
        for ordinal in order:
            if len(padding) >= max(sizes, default=0):
                break
            tool = catalog[ordinal]
            if tool.name.casefold() not in own_names:
                padding.append(tool.id)
        for size in sizes:
            if len(row.own) <= size <= len(row.own) + len(padding):
                queries[size].append(_query(row, row.own + tuple(padding[: size - len(row.own)])))
    return [XlamPool(str(size), tuple(queries[size])) for size in sizes]


def run(
    data: XlamSet,
    engine: Engine,
    tiers: Sequence[str],
    *,
    k: int = 10,
    progress: Callable[[int], None] | None = None,
) -> dict[str, dict[str, tuple[QueryOutcome, ...]]]:
    """Outcomes by tier and pool.

    Args:
        data: result of `prepare`; the engine has its catalog.
        engine: the engine.
        tiers: names of the tiers.
        k: number of requested tools.
        progress: called with 1 after each query.
    """
    return {
        tier: {
            pool.name: measure(
                tier_method(engine, tier, k=k, limit_to_pool=True), pool.queries, progress=progress
            )
            for pool in data.pools
        }
        for tier in tiers
    }


def summaries(
    outcomes: Mapping[str, tuple[QueryOutcome, ...]], *, seed: int = 0
) -> dict[str, Summary]:
    """Figures of one method by pool, then by bucket of pools (each query counts once per pool)."""
    by_pool = {
        pool: summarise(pool_outcomes, seed=seed) for pool, pool_outcomes in outcomes.items()
    }
    for bucket, pools in BUCKETS.items():
        joined = [outcome for pool in pools for outcome in outcomes.get(pool, ())]
        if joined:
            by_pool[bucket] = summarise(joined, seed=seed)
    return by_pool


def to_json(data: XlamSet, methods: Mapping[str, Mapping[str, Summary]]) -> dict[str, Any]:
    """The JSON form: how the pools were made, and every metric by pool or bucket and method.

    Args:
        data: the data of the run.
        methods: name of a method -> its `summaries`.
    """
    pools = dict.fromkeys(pool for by_pool in methods.values() for pool in by_pool)
    by_pool_and_method = {
        pool: {method: by_pool[pool] for method, by_pool in methods.items() if pool in by_pool}
        for pool in pools
    }
    return {
        "tools": len(data.catalog),
        "rows": data.rows,
        "sample": data.sample,
        "seed": data.seed,
        "pools": {
            pool: {
                "queries": next(iter(by_method.values())).queries,
                "tiers": {method: rounded(summary) for method, summary in by_method.items()},
            }
            for pool, by_method in by_pool_and_method.items()
        },
        "published": {
            method: {
                bucket: {"hit@1": first / 100, "hit@3": third / 100}
                for bucket, (first, third) in cells.items()
            }
            for method, cells in PUBLISHED.items()
        },
        "malformed": list(map(asdict, data.malformed)),
    }


def table(methods: Mapping[str, Mapping[str, Summary]]) -> Table:
    """hit@1 / hit@3 in per cent of every method in every pool and bucket, published ones first.

    Args:
        methods: name of a method -> its `summaries`.
    """
    measured_pools = {pool for by_pool in methods.values() for pool in by_pool}
    columns = [
        pool
        for pool in (*OWN_LIST_SIZES, *map(str, PADDED_SIZES), WHOLE_CATALOG, *BUCKETS)
        if pool in measured_pools
    ]
    rows: list[tuple[Cell, ...]] = [
        (f"{method}, published", *(_pair(cells.get(column)) for column in columns))
        for method, cells in PUBLISHED.items()
    ]
    for method, by_pool in methods.items():
        cells = [
            _pair(_percent(by_pool[column])) if column in by_pool else None for column in columns
        ]
        rows.append((method, *cells))
    if RERANK_TIER not in methods:
        # No reranker is bundled: this row needs one in the configuration.
        rows.append((RERANK_TIER, *("not run" for _ in columns)))
    counts = next(iter(methods.values()), {})
    rows.append(
        ("queries", *(counts[column].queries if column in counts else None for column in columns))
    )
    return Table(("hit@1 / hit@3", *columns), tuple(rows))


def _percent(summary: Summary) -> tuple[float, float] | None:
    first, third = summary.values["hit@1"], summary.values["hit@3"]
    return None if first is None or third is None else (100 * first, 100 * third)


def _pair(values: tuple[float, float] | None) -> Cell:
    return None if values is None else f"{values[0]:.1f} / {values[1]:.1f}"
