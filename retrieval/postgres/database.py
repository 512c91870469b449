"""Connections to the database of a configuration, each limited to one tenant."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from queue import Empty, LifoQueue
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any
from weakref import finalize

from ...errors import ConfigError, MissingExtraError, StoreError

if TYPE_CHECKING:
    from psycopg import Connection

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_MOST_CONNECTIONS = 16
_WAIT_S = 30.0
_CONNECT_S = 10

_PLANNER = {
    # Statements are short and their plans are kept: to compile them, or to start
    # workers for them, would take longer.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # A query's words are more frequent than the average word, which is what the planner expects.
    # It would sort postings that are quicker to hash.
    "enable_sort": "off",
    "enable_memoize": "off",
    # The statements join as written, by index: what the planner knows of a tenant that was added
    # just now is wrong, and it would read the vectors of all others.
    "join_collapse_limit": "1",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "work_mem": "64MB",
    # A mask may hide the nearest vectors: the graph is walked until enough are permitted.
    "hnsw.ef_search": "200",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.max_scan_tuples": "100000",
}


class Database:
    """Connections to one database, for one tenant, kept open between uses. Thread-safe.

    Args:
        dsn: connection string of PostgreSQL. `${NAME}` is the value of an environment variable.
        tenant: name of the tenant whose tools the connections see.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
    """

    def __init__(self, dsn: str, tenant: str) -> None:
        _check_driver()
        self.tenant = tenant
        self._dsn = expand(dsn)
        self._idle: LifoQueue[Connection[Any]] = LifoQueue()
        finalize(self, _close_all, self._idle)
        self._free = BoundedSemaphore(_MOST_CONNECTIONS)

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """A connection in autocommit mode, for this block only.

        Raises:
            StoreError: the database cannot be reached, or a statement fails.
        """
        import psycopg

        if not self._free.acquire(timeout=_WAIT_S):
            raise StoreError(f"PostgreSQL: all {_MOST_CONNECTIONS} connections are in use")
        try:
            connection = self._taken() or self._opened()
            try:
                yield connection
            except BaseException:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.close()
                raise
            finally:
                if not connection.closed:
                    self._idle.put(connection)
        except psycopg.Error as error:
            raise StoreError(f"PostgreSQL: {_first_line(error)}") from error
        finally:
            self._free.release()

    def fetch(self, statement: str, parameters: Mapping[str, Any]) -> list[Any]:
        """The rows of a prepared statement that only reads.

        It is sent again, once, where the server has closed the connection since its last use.

        Raises:
            StoreError: as `connection`.
        """
        import psycopg

        for attempt in range(2):
            try:
                with self.connection() as connection, connection.cursor(binary=True) as cursor:
                    cursor.execute(statement.encode(), parameters, prepare=True)
                    return cursor.fetchall()
            except StoreError as error:
                is_broken = isinstance(error.__cause__, psycopg.OperationalError)
                if attempt or not is_broken:
                    raise
                # The others were opened as long ago.
                self.close()
        raise AssertionError

    def close(self) -> None:
        """Close the connections that are not in use; later uses open others."""
        _close_all(self._idle)

    def _taken(self) -> Connection[Any] | None:
        with suppress(Empty):
            return self._idle.get_nowait()
        return None

    def _opened(self) -> Connection[Any]:
        import psycopg

        connection = psycopg.connect(self._dsn, autocommit=True, connect_timeout=_CONNECT_S)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: Connection[Any]) -> None:
        from pgvector.psycopg import register_vector

        from .migrations import check_version

        check_version(connection)
        register_vector(connection)
        for name, value in _PLANNER.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        connection.execute("SELECT set_config('shortlist.tenant', %s, false)", [self.tenant])


def tenant_number(connection: Connection[Any], name: str) -> int:
    """The number of a tenant, which is added if there is none of its name."""
    # By name, because row-level security does not hold for superusers.
    number = "SELECT tenant FROM shortlist.tenants WHERE name = %s"
    row = connection.execute(number, [name]).fetchone()
    if row is None:
        connection.execute(
            "INSERT INTO shortlist.tenants (name) VALUES (%s) ON CONFLICT DO NOTHING", [name]
        )
        row = connection.execute(number, [name]).fetchone()
    assert row is not None
    return int(row[0])


def _close_all(idle: LifoQueue[Connection[Any]]) -> None:
    with suppress(Empty):
        while True:
            idle.get_nowait().close()


@contextmanager
def single_connection(dsn: str) -> Iterator[Connection[Any]]:
    """One connection in autocommit mode, without the schema being checked.

    Raises:
        ConfigError: a variable of the connection string is not set.
        MissingExtraError: psycopg or pgvector is not installed.
        StoreError: the database cannot be reached, or a statement fails.
    """
    _check_driver()
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


def _check_driver() -> None:
    try:
        import_module("pgvector.psycopg")
    except ImportError as error:
        raise MissingExtraError("a catalog in PostgreSQL", "postgres") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
