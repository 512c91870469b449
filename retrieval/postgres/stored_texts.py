"""Small texts of one tenant in PostgreSQL, which several processes read and change."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...errors import StoreError
from .database import Database, tenant_number

if TYPE_CHECKING:
    from psycopg import Connection

_MOST_BYTES = 100_000_000
"""Most bytes of a tenant's texts of one kind that end by themselves; the oldest are deleted."""
_SWEEP_S = 60.0
"""Seconds between two looks for texts that have ended."""


class StoredTexts:
    """Texts by kind and key. Thread-safe.

    Args:
        database: connections of the tenant.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next_sweep = 0.0

    def read(self, kind: str, key: str) -> str | None:
        """The present text; None if there is none, or it has ended.

        Raises:
            StoreError: the database cannot be reached.
        """
        rows = self._database.fetch(
            f"SELECT value FROM shortlist.texts WHERE {_OWN}", self._place(kind, key)
        )
        return str(rows[0][0]) if rows else None

    def read_all(self, kind: str) -> dict[str, str]:
        """Key to text, for all texts of a kind.

        Raises:
            StoreError: the database cannot be reached.
        """
        rows = self._database.fetch(
            f"SELECT key, value FROM shortlist.texts WHERE {_OWN_OF_KIND}", self._place(kind, "")
        )
        return {str(key): str(value) for key, value in rows}

    def stamp(self, kind: str) -> str:
        """Another value after each change of a text of a kind; "" if there is none.

        Raises:
            StoreError: the database cannot be reached.
        """
        rows = self._database.fetch(
            f"SELECT max(written)::text, count(*) FROM shortlist.texts WHERE {_OWN_OF_KIND}",
            self._place(kind, ""),
        )
        last_written, count = rows[0]
        return f"{last_written} {count}" if count else ""

    def change(
        self,
        kind: str,
        key: str,
        change: Callable[[str | None], str | None],
        *,
        kept_s: float | None = None,
    ) -> None:
        """Replace a text in one transaction. Other changes of the same text wait.

        Args:
            kind: kind of the text.
            key: its key.
            change: function of the present text that returns the new one; None for no text. The
                new text may have printable ASCII only, as JSON does. What the function raises ends
                the transaction, and nothing is changed.
            kept_s: seconds until the text ends; None for never.

        Raises:
            StoreError: the database cannot be reached.
        """
        import psycopg

        for attempt in range(2):
            has_begun = False
            try:
                with self._database.connection() as connection, connection.transaction():
                    number = tenant_number(connection, self._database.tenant)
                    place = {"tenant": number, **self._place(kind, key)}
                    connection.execute(
                        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                        [f"{number}/{kind}/{key}"],
                    )
                    has_begun = True
                    self._change(connection, place, change, kept_s)
                    return
            except StoreError as error:
                # The server may have closed an idle connection since its last use.
                is_broken = isinstance(error.__cause__, psycopg.OperationalError)
                if attempt or has_begun or not is_broken:
                    raise
                self._database.close()

    def _change(
        self,
        connection: Connection[Any],
        place: dict[str, Any],
        change: Callable[[str | None], str | None],
        kept_s: float | None,
    ) -> None:
        row = connection.execute(
            f"SELECT value FROM shortlist.texts WHERE tenant = %(tenant)s AND {_OWN}".encode(),
            place,
        ).fetchone()
        before = None if row is None else str(row[0])
        after = change(before)
        if after is None:
            connection.execute(
                "DELETE FROM shortlist.texts "
                "WHERE tenant = %(tenant)s AND kind = %(kind)s AND key = %(key)s",
                place,
            )
        elif after != before:
            connection.execute(
                "INSERT INTO shortlist.texts (tenant, kind, key, value, written, ends) VALUES "
                "(%(tenant)s, %(kind)s, %(key)s, %(value)s, clock_timestamp(), "
                "clock_timestamp() + make_interval(secs => %(kept)s)) "
                "ON CONFLICT (tenant, kind, key) DO UPDATE SET "
                "value = excluded.value, written = excluded.written, ends = excluded.ends",
                place | {"value": after, "kept": kept_s},
            )
        if kept_s is not None and monotonic() > self._next_sweep:
            self._next_sweep = monotonic() + _SWEEP_S
            _sweep(connection, place)

    def _place(self, kind: str, key: str) -> dict[str, Any]:
        return {"name": self._database.tenant, "kind": kind, "key": key}


# By name, because row-level security does not hold for superusers.
_OWN_OF_KIND = (
    "tenant = (SELECT tenant FROM shortlist.tenants WHERE name = %(name)s) "
    "AND kind = %(kind)s AND (ends IS NULL OR ends > clock_timestamp())"
)
_OWN = f"{_OWN_OF_KIND} AND key = %(key)s"


def _sweep(connection: Connection[Any], place: dict[str, Any]) -> None:
    """Delete texts that have ended, and the oldest of a kind if there are too many bytes."""
    connection.execute(
        "DELETE FROM shortlist.texts WHERE tenant = %(tenant)s AND ends < clock_timestamp()", place
    )
    connection.execute(
        "DELETE FROM shortlist.texts t USING (SELECT key, sum(octet_length(value)) "
        "OVER (ORDER BY written DESC) AS bytes FROM shortlist.texts "
        "WHERE tenant = %(tenant)s AND kind = %(kind)s AND ends IS NOT NULL) AS newer "
        "WHERE t.tenant = %(tenant)s AND t.kind = %(kind)s AND t.key = newer.key "
        "AND newer.bytes > %(most)s",
        place | {"most": _MOST_BYTES},
    )
