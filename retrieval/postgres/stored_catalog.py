"""One tenant's catalog in PostgreSQL: reading it, and writing what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...catalog.tool_document import LEXICAL_FIELDS
from ...text import search_terms
from .database import Database, tenant_number
from .stored_vectors import COPY_LOCK

if TYPE_CHECKING:
    from psycopg import Connection

FIELD_NUMBERS: Mapping[str, int] = {name: number for number, name in enumerate(LEXICAL_FIELDS)}
"""Field of a lexical document to its number in the tables."""

CHANNEL = "shortlist"
"""Channel of the notifications of changes; the payload is the name of the tenant."""
_KEPT_S = 600
"""Seconds that a removed definition stays for engines that answer with an older version."""
_EXACT_LENGTHS = 40
_LONGEST_COUNT = 32_767
_STEP = 2_000
"""Definitions that are written in one statement."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """One definition, ready to be written.

    Args:
        tool_id: id of the tool.
        server: name of its server; "" for none.
        server_place: place of the server in the catalog.
        place: place of the tool among those of its server.
        source: hash of all that is indexed.
        vector_key: key of its vectors.
        definition: the tool as JSON.
        fields: makes the mapping of field to raw text; called for what is not stored yet.
    """

    tool_id: str
    server: str
    server_place: int
    place: int
    source: bytes
    vector_key: bytes
    definition: str
    fields: Callable[[], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a catalog as it is in the database.

    Args:
        version: one more with each change.
        numbers: number of each definition, in the catalog's order.
        definitions: number to the tool as JSON, for the definitions that were read.
    """

    version: int
    numbers: tuple[int, ...]
    definitions: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction wrote.

    Args:
        version: version of the catalog from now on.
        numbers: tool id to the number of its definition, for every tool of the servers written.
        changed: whether anything was written.
    """

    version: int
    numbers: Mapping[str, int]
    changed: bool


class StoredCatalog:
    """The tools of one tenant.

    Args:
        database: connections of the tenant.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    def version(self) -> int:
        """The version of the catalog; 0 where there is none."""
        rows = self.database.fetch(
            "SELECT version FROM shortlist.tenants WHERE name = %(name)s",
            {"name": self.database.tenant},
        )
        return int(rows[0][0]) if rows else 0

    def read(self, known: Collection[int] = ()) -> StoredVersion:
        """The newest version.

        Args:
            known: numbers of definitions that need not be read.
        """
        with self.database.connection() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            tenant = connection.execute(
                "SELECT tenant, version FROM shortlist.tenants WHERE name = %s",
                [self.database.tenant],
            ).fetchone()
            if tenant is None:
                return StoredVersion(0, (), {})
            rows = connection.execute(
                "SELECT number FROM shortlist.tools "
                "WHERE tenant = %s AND removed IS NULL ORDER BY server_place, server, place, id",
                [tenant[0]],
            )
            numbers = tuple(number for (number,) in rows)
            unknown = set(numbers).difference(known)
            definitions = connection.execute(
                "SELECT number, definition FROM shortlist.tools "
                "WHERE tenant = %s AND number = ANY(%s)",
                [tenant[0], list(unknown)],
            )
            return StoredVersion(tenant[1], numbers, dict(definitions.fetchall()))

    def tenant_number(self) -> int:
        """The number of the tenant, which is added if there is none of its name."""
        with self.database.connection() as connection:
            return tenant_number(connection, self.database.tenant)

    def write(
        self,
        documents: Sequence[StoredDocument],
        servers: Iterable[str] | None = None,
        *,
        models: Sequence[int] = (),
    ) -> Written:
        """Make these the tools of some servers, or of the whole catalog, in one transaction.

        Definitions that are stored already stay as they are.

        Args:
            documents: the tools of these servers.
            servers: names of the servers; None for all that there are.
            models: models whose vectors the tools are searched by.
        """
        with self.database.connection() as connection, connection.transaction():
            tenant = tenant_number(connection, self.database.tenant)
            row = connection.execute(
                "SELECT version, next_number FROM shortlist.tenants WHERE tenant = %s FOR UPDATE",
                [tenant],
            ).fetchone()
            assert row is not None
            version, next_number = row
            among = "" if servers is None else "AND server = ANY(%s)"
            stored = {
                tool_id: (number, source)
                for tool_id, number, source in connection.execute(
                    "SELECT id, number, source FROM shortlist.tools "
                    f"WHERE tenant = %s AND removed IS NULL {among}",
                    [tenant] if servers is None else [tenant, list(servers)],
                )
            }
            numbers: dict[str, int] = {}
            added: list[tuple[int, StoredDocument]] = []
            for document in documents:
                number, source = stored.get(document.tool_id, (None, None))
                if number is None or source != document.source:
                    number, next_number = next_number, next_number + 1
                    added.append((number, document))
                numbers[document.tool_id] = number
            kept = set(numbers.values())
            removed = [number for number, _ in stored.values() if number not in kept]
            change = _Change(connection, tenant)
            if not added and not removed:
                change.copy_vectors(models, numbers.values())
                return Written(version, numbers, changed=False)
            forgotten = change.forget_old()
            change.remove(removed)
            change.add(added)
            change.copy_vectors(models, numbers.values(), forgotten)
            connection.execute(
                "UPDATE shortlist.tenants SET version = version + 1, next_number = %s, "
                "documents = documents + %s WHERE tenant = %s",
                [next_number, len(added) - len(removed), tenant],
            )
            connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, self.database.tenant])
            return Written(version + 1, numbers, changed=True)


class _Change:
    """The statements of one transaction that changes a catalog."""

    def __init__(self, connection: Connection[Any], tenant: int) -> None:
        self._connection = connection
        self._tenant = tenant

    def forget_old(self) -> list[int]:
        """Delete definitions that were removed long ago, with their postings.

        Returns their numbers.
        """
        rows = self._connection.execute(
            "WITH old AS (DELETE FROM shortlist.tools WHERE tenant = %(tenant)s AND removed < "
            "now() - make_interval(secs => %(kept)s) RETURNING number, terms, fields), "
            "entries AS (SELECT number, unnest(terms) AS term, unnest(fields) AS field FROM old), "
            "gone AS (DELETE FROM shortlist.postings p USING entries e "
            "WHERE p.tenant = %(tenant)s "
            "AND p.term = e.term AND p.field = e.field AND p.number = e.number) "
            "SELECT number FROM old",
            {"tenant": self._tenant, "kept": _KEPT_S},
        )
        return [number for (number,) in rows]

    def copy_vectors(
        self, models: Sequence[int], numbers: Collection[int], forgotten: Sequence[int] = ()
    ) -> None:
        """Put the vectors of definitions beside each other, with a place for those still to come.

        The last step of a transaction: encoders wait for its end.

        Args:
            models: models of the vectors.
            numbers: numbers of the definitions.
            forgotten: numbers of definitions that are deleted.
        """
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [COPY_LOCK])
        self._connection.execute(
            "INSERT INTO shortlist.tool_vectors (tenant, model, number, key, values) "
            "SELECT t.tenant, m.model, t.number, t.vector_key, v.values "
            "FROM unnest(%s::integer[]) AS m(model) "
            "JOIN shortlist.tools t ON t.tenant = %s AND t.number = ANY(%s) "
            "LEFT JOIN shortlist.vectors v "
            "ON v.tenant = t.tenant AND v.model = m.model AND v.key = t.vector_key "
            "ON CONFLICT DO NOTHING",
            [list(models), self._tenant, sorted(numbers)],
        )
        self._connection.execute(
            "DELETE FROM shortlist.tool_vectors c USING shortlist.models m "
            "WHERE c.tenant = %s AND c.model = m.model AND c.number = ANY(%s)",
            [self._tenant, list(forgotten)],
        )

    def remove(self, numbers: Sequence[int]) -> None:
        """Mark definitions as removed; their postings no longer count."""
        if not numbers:
            return
        rows = self._connection.execute(
            "UPDATE shortlist.tools SET removed = now() WHERE tenant = %s AND number = ANY(%s) "
            "RETURNING terms, fields, lengths",
            [self._tenant, list(numbers)],
        ).fetchall()
        words: Counter[int] = Counter()
        documents: Counter[tuple[str, int]] = Counter()
        for terms_, fields, lengths in rows:
            documents.update(zip(terms_, fields, strict=True))
            words.update(dict(zip(fields, lengths, strict=True)))
        self._connection.execute(
            "UPDATE shortlist.terms t SET documents = t.documents - gone.documents "
            "FROM unnest(%s::text[], %s::smallint[], %s::integer[]) "
            "AS gone(term, field, documents) "
            "WHERE t.tenant = %s AND t.term = gone.term AND t.field = gone.field",
            [*_columns(documents), self._tenant],
        )
        self._add_words({field: -count for field, count in words.items()})

    def add(self, documents: Sequence[tuple[int, StoredDocument]]) -> None:
        """Add definitions with their postings."""
        # COPY would be refused where row-level security holds.
        for start in range(0, len(documents), _STEP):
            self._add(documents[start : start + _STEP])

    def _add(self, documents: Sequence[tuple[int, StoredDocument]]) -> None:
        counted: Counter[tuple[str, int]] = Counter()
        words: Counter[int] = Counter()
        tools: list[tuple[Any, ...]] = []
        postings: list[tuple[str, int, int, int, int]] = []
        for number, document in documents:
            entries = _entries(document.fields())
            columns = [[entry[place] for entry in entries] for place in (0, 1, 3)]
            tools.append(
                (
                    self._tenant,
                    number,
                    document.tool_id,
                    document.server,
                    document.server_place,
                    document.place,
                    document.source,
                    document.vector_key,
                    document.definition,
                    *columns,
                )
            )
            words.update({field: length for _, field, _, length in entries})
            counted.update((term, field) for term, field, _, _ in entries)
            postings += [
                (term, field, number, count, rounded_length(length))
                for term, field, count, length in entries
            ]
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO shortlist.tools (tenant, number, id, server, server_place, place, "
                "source, vector_key, definition, terms, fields, lengths) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                tools,
            )
        self._connection.execute(
            "INSERT INTO shortlist.postings (tenant, term, field, number, count, length) "
            "SELECT %s, * FROM unnest(%s::text[], %s::smallint[], %s::integer[], "
            "%s::smallint[], %s::integer[])",
            [self._tenant, *map(list, zip(*postings, strict=True))]
            if postings
            else [self._tenant, [], [], [], [], []],
        )
        self._connection.execute(
            "INSERT INTO shortlist.terms AS t (tenant, term, field, documents) "
            "SELECT %s, * FROM unnest(%s::text[], %s::smallint[], %s::integer[]) "
            "ON CONFLICT (tenant, term, field) DO UPDATE SET "
            "documents = t.documents + excluded.documents",
            [self._tenant, *_columns(counted)],
        )
        self._add_words(words)

    def _add_words(self, words: Mapping[int, int]) -> None:
        """Add to the number of words that a field has in all tools together."""
        self._connection.execute(
            "INSERT INTO shortlist.lengths AS l SELECT %s, * FROM "
            "unnest(%s::smallint[], %s::bigint[]) "
            "ON CONFLICT (tenant, field) DO UPDATE SET words = l.words + excluded.words",
            [self._tenant, list(words), list(words.values())],
        )


def _columns(counted: Counter[tuple[str, int]]) -> tuple[list[str], list[int], list[int]]:
    return (
        [term for term, _ in counted],
        [field for _, field in counted],
        list(counted.values()),
    )


def rounded_length(length: int) -> int:
    """The length that BM25 counts with: as in tantivy and Lucene, which keep one byte of it.

    Exact up to 40, then rounded down to 8 steps for each doubling.
    """
    if length <= _EXACT_LENGTHS:
        return length
    step = 1 << ((length - 24).bit_length() - 4)
    return 24 + (length - 24) // step * step


def _entries(fields: Mapping[str, str]) -> list[tuple[str, int, int, int]]:
    """Term, field, count and the field's number of terms, for each term of a document."""
    entries: list[tuple[str, int, int, int]] = []
    for name, text in fields.items():
        counted = Counter(search_terms(text))
        length = counted.total()
        entries += [
            (term, FIELD_NUMBERS[name], min(count, _LONGEST_COUNT), length)
            for term, count in counted.items()
        ]
    return entries
