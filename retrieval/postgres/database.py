"""Connections to the database of a configuration, each limited to one tenant."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, MissingExtraError, StoreError

if TYPE_CHECKING:
    from psycopg import Connection

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_MOST_CONNECTIONS = 16
_WAIT_S = 30.0

_PLANNER = {
    # Statements are short and their plans are kept: to compile them, or to start
    # workers for them, would take longer.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # A query's words are more frequent than the average word, which is what the planner expects.
    # It would sort postings that are quicker to hash.
    "enable_sort": "off",
    "enable_memoize": "off",
    "work_mem": "64MB",
    # A mask may hide the nearest vectors: the graph is walked until enough are permitted.
    "hnsw.ef_search": "120",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.max_scan_tuples": "100000",
}


class Database:
    """A pool of connections to one database, for one tenant. Thread-safe.

    Args:
        dsn: connection string of PostgreSQL. `${NAME}` is the value of an environment variable.
        tenant: name of the tenant whose tools the connections see.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
    """

    def __init__(self, dsn: str, tenant: str) -> None:
        psycopg_pool = _driver()
        self.tenant = tenant
        self._pool: Any = psycopg_pool.ConnectionPool(
            expand(dsn),
            min_size=0,
            max_size=_MOST_CONNECTIONS,
            timeout=_WAIT_S,
            configure=self._configure,
            kwargs={"autocommit": True},
            open=True,
        )

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """A connection in autocommit mode, which goes back to the pool.

        Raises:
            StoreError: the database cannot be reached, or a statement fails.
        """
        import psycopg
        from psycopg_pool import PoolTimeout

        try:
            with self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise StoreError(
                f"PostgreSQL: no connection in {_WAIT_S:.0f} s: {error}; check `index.dsn`"
            ) from error
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL: {_first_line(error)}") from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _configure(self, connection: Connection[Any]) -> None:
        from pgvector.psycopg import register_vector

        from .schema import check_version

        check_version(connection)
        register_vector(connection)
        for name, value in _PLANNER.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        connection.execute("SELECT set_config('shortlist.tenant', %s, false)", [self.tenant])


@contextmanager
def single_connection(dsn: str) -> Iterator[Connection[Any]]:
    """One connection in autocommit mode, without the schema being checked.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
        StoreError: the database cannot be reached, or a statement fails.
    """
    _driver()
    import psycopg

    try:
        with psycopg.connect(expand(dsn), autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {_first_line(error)}") from error


def expand(dsn: str) -> str:
    """A connection string with the values of its environment variables.

    Raises:
        ConfigError: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise ConfigError(f"index.dsn: the environment variable {name} is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, dsn)


def _driver() -> Any:
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg_pool
    except ImportError as error:
        raise MissingExtraError("a catalog in PostgreSQL", "postgres") from error
    return psycopg_pool


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
