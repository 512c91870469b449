"""Vectors of one tenant's texts in PostgreSQL, and the texts that wait for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .database import Database, tenant_number

Floats = NDArray[np.float32]

COPY_LOCK = 7_365_202
"""Key of the advisory lock that keeps vectors from changing while they are copied to tools."""

#: By name, because row-level security does not hold for superusers.
_OWN = "tenant = (SELECT tenant FROM shortlist.tenants WHERE name = %s)"


@dataclass(frozen=True, slots=True)
class WaitingText:
    """A text of a tool that no worker has encoded yet.

    Args:
        key: key of the vector.
        text: the text.
        queries: example queries of the tool.
    """

    key: bytes
    text: str
    queries: tuple[str, ...] = ()


class StoredVectors:
    """Vectors by model and key.

    Args:
        database: connections of the tenant.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def model(self, fingerprint: str, dim: int) -> int:
        """The number of a model, which is added if the database does not know it.

        Args:
            fingerprint: names the model and all that its vectors depend on.
            dim: length of a vector.
        """
        with self._database.connection() as connection:
            known = connection.execute(
                "SELECT model FROM shortlist.models WHERE fingerprint = %s", [fingerprint]
            ).fetchone()
            row = (
                known
                or connection.execute(
                    "SELECT shortlist.add_model(%s, %s)", [fingerprint, dim]
                ).fetchone()
            )
        assert row is not None
        return int(row[0])

    def absent(self, model: int, keys: Sequence[bytes]) -> set[bytes]:
        """The keys for which a model has no vector."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT k FROM unnest(%s::bytea[]) AS k WHERE NOT EXISTS "
                f"(SELECT FROM shortlist.vectors WHERE {_OWN} AND model = %s AND key = k)".encode(),
                [list(keys), self._database.tenant, model],
            )
            return {key for (key,) in rows}

    def put(self, model: int, values: Mapping[bytes, Floats]) -> None:
        """Store vectors; those that are there already stay as they are."""
        with self._database.connection() as connection, connection.cursor() as cursor:
            tenant = tenant_number(connection, self._database.tenant)
            cursor.executemany(
                "INSERT INTO shortlist.vectors (tenant, model, key, values) "
                "VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [(tenant, model, key, vector) for key, vector in values.items()],
            )

    def add_waiting(self, model: int, texts: Sequence[WaitingText]) -> None:
        """Add texts for workers to encode."""
        with self._database.connection() as connection, connection.cursor() as cursor:
            tenant = tenant_number(connection, self._database.tenant)
            cursor.executemany(
                "INSERT INTO shortlist.unencoded (tenant, model, key, text, queries) "
                "VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [(tenant, model, text.key, text.text, list(text.queries)) for text in texts],
            )

    def count(self, model: int) -> int:
        """About how many vectors of a model there are, as the last VACUUM or ANALYZE counted."""
        with self._database.connection() as connection:
            row = connection.execute(
                "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)",
                [f"shortlist.vectors_of_{model}"],
            ).fetchone()
        return 0 if row is None else max(0, int(row[0]))

    def waiting(self, model: int) -> int:
        """How many texts wait for a worker; 0 for a role that may only read."""
        if not self.may_encode:
            return 0
        with self._database.connection() as connection:
            row = connection.execute(
                f"SELECT count(*) FROM shortlist.unencoded WHERE {_OWN} AND model = %s".encode(),
                [self._database.tenant, model],
            ).fetchone()
        assert row is not None
        return int(row[0])

    @cached_property
    def may_encode(self) -> bool:
        """Whether the role of the connections may take texts from the queue."""
        with self._database.connection() as connection:
            row = connection.execute(
                "SELECT has_table_privilege('shortlist.unencoded', 'DELETE')"
            ).fetchone()
        return row is not None and bool(row[0])

    def waiting_of(self, model: int, tenant: int) -> int:
        """How many texts of a tenant's tools no worker has encoded yet."""
        rows = self._database.fetch(
            "SELECT count(*) FROM shortlist.unencoded u "
            "WHERE u.tenant = %(tenant)s AND u.model = %(model)s AND EXISTS "
            "(SELECT FROM shortlist.tools t WHERE t.vector_key = u.key AND t.tenant = %(tenant)s)",
            {"model": model, "tenant": tenant},
        )
        return int(rows[0][0])

    def encode_waiting(
        self,
        model: int,
        count: int,
        encode: Callable[[Sequence[WaitingText]], Mapping[int, Floats]],
    ) -> int:
        """Take texts that no other worker has taken, and store their vectors.

        Returns how many there were. A worker that dies leaves its texts to others.

        Args:
            model: model whose vectors the texts wait for.
            count: texts to take at most.
            encode: gives the vectors of the texts for each of one or more models, shape (n, dim).
        """
        with self._database.connection() as connection, connection.transaction():
            tenant = tenant_number(connection, self._database.tenant)
            rows = connection.execute(
                "DELETE FROM shortlist.unencoded WHERE (tenant, model, key) IN "
                "(SELECT tenant, model, key FROM shortlist.unencoded "
                "WHERE tenant = %s AND model = %s ORDER BY key LIMIT %s "
                "FOR UPDATE SKIP LOCKED) RETURNING key, text, queries",
                [tenant, model, count],
            ).fetchall()
            if not rows:
                return 0
            texts = [WaitingText(key, text, tuple(queries)) for key, text, queries in rows]
            encoded = encode(texts)
            # A writer that copies vectors at this time would miss these.
            connection.execute("SELECT pg_advisory_xact_lock_shared(%s)", [COPY_LOCK])
            with connection.cursor() as cursor:
                for target, values in encoded.items():
                    cursor.executemany(
                        "INSERT INTO shortlist.vectors (tenant, model, key, values) "
                        "VALUES (%s, %s, %s, %s) "
                        "ON CONFLICT (tenant, model, key) DO UPDATE SET values = excluded.values",
                        [
                            (tenant, target, text.key, vector)
                            for text, vector in zip(texts, values, strict=True)
                        ],
                    )
            return len(texts)
