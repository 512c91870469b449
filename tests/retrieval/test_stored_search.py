"""The search in PostgreSQL beyond the contract: the graph of vectors, closed connections."""

from __future__ import annotations

import numpy as np
import pytest

from shortlist.errors import StoreError
from shortlist.retrieval.postgres import stored_search
from shortlist.retrieval.postgres.database import Database, single_connection
from shortlist.retrieval.postgres.stored_catalog import StoredCatalog, StoredDocument
from shortlist.retrieval.postgres.stored_search import (
    StoredRows,
    StoredSearch,
    VectorPath,
    VectorSearch,
)
from shortlist.retrieval.postgres.stored_vectors import StoredVectors, WaitingText

from .stored_backends import StoredDenseBackend
from .vectors import assert_ranked, brute_force, clustered

ROWS, DIM = 2_500, 24
VECTORS = clustered(ROWS, DIM)
QUERIES = clustered(30, DIM, seed=7)


@pytest.fixture(scope="module")
def vector_index(shared_dsn: str) -> object:
    return StoredDenseBackend(shared_dsn).build(VECTORS)


def test_the_graph_has_an_index_scan(shared_dsn: str, vector_index: object) -> None:
    statement, parameters = VectorSearch(QUERIES[0], 1).statement("s", VectorPath.GRAPH)
    search = vector_index.search_
    parameters |= {"tenant": 1, "depth": 10, "mask": search.rows.bits(None)}
    with Database(shared_dsn, "tenant-0").connection() as connection:
        rows = connection.execute(f"EXPLAIN {statement}".encode(), parameters).fetchall()
    assert any("Index Scan using vectors_of_1" in line for (line,) in rows)


@pytest.mark.parametrize("share", [None, 0.5, 0.9])
def test_the_graph_finds_the_true_neighbours_inside_a_mask(
    vector_index: object, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_search, "_STEP_US", 0.0)
    mask = None if share is None else np.random.default_rng(3).random(ROWS) < share
    shared = 0
    for vector in QUERIES:
        ranking = vector_index.search(vector, 10, mask)
        assert_ranked(ranking, 10, mask)
        assert len(ranking) == 10
        true_rows = brute_force(VECTORS, vector, 10, mask).rows
        shared += len(set(ranking.rows.tolist()) & set(true_rows.tolist()))
        np.testing.assert_allclose(ranking.scores, VECTORS[ranking.rows] @ vector, atol=1e-6)
    assert shared >= 0.95 * 10 * len(QUERIES), shared


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (slice(None), VectorPath.RANGE),
        (slice(700, 1_900), VectorPath.RANGE),
        (slice(3, None, 50), VectorPath.NUMBERS),
    ],
)
def test_fewer_permitted_vectors_are_all_compared(
    vector_index: object, rows: slice, path: VectorPath
) -> None:
    mask = np.zeros(ROWS, np.bool_)
    mask[rows] = True
    search = vector_index.search_
    assert search._cheapest_path(search.rows.numbers[mask], 10) is path
    for vector in QUERIES:
        ranking = vector_index.search(vector, 10, mask)
        assert ranking.rows.tolist() == brute_force(VECTORS, vector, 10, mask).rows.tolist()


def test_a_text_that_one_tenant_encodes_changes_nothing_for_another(shared_dsn: str) -> None:
    document = StoredDocument("a", "", 0, 0, b"", b"later", "{}", dict)
    stored, searches = [], []
    for tenant in ("first", "second"):
        catalog = StoredCatalog(Database(shared_dsn, tenant))
        vectors = StoredVectors(catalog.database)
        model = vectors.model("encoded later", 3)
        written = catalog.write([document], models=[model])
        rows = StoredRows(np.array(list(written.numbers.values()), np.int32))
        searches.append(StoredSearch(catalog.database, catalog.tenant_number(), rows))
        vectors.add_waiting(model, [WaitingText(b"later", "text")])
        stored.append(vectors)
    query = [VectorSearch(np.array([1, 0, 0], np.float32), model)]

    def scores() -> list[list[float]]:
        return [search.rankings(query, 5, None)[0].scores.tolist() for search in searches]

    def encode(vectors: StoredVectors, score: float) -> None:
        value = np.array([[score, 0, 0]], np.float32)
        assert vectors.encode_waiting(model, 5, lambda _: {model: value}) == 1

    assert scores() == [[], []]
    encode(stored[0], 0.5)
    assert scores() == [[0.5], []]
    assert [vectors.waiting(model) for vectors in stored] == [0, 1]
    encode(stored[1], 0.25)
    stored[0].add_waiting(model, [WaitingText(b"later", "text")])
    encode(stored[0], 0.75)
    assert scores() == [[0.75], [0.25]]


def test_a_closed_connection_is_replaced_once(shared_dsn: str) -> None:
    database = Database(shared_dsn, "any")
    assert database.fetch("SELECT 1", {}) == [(1,)]
    with single_connection(shared_dsn) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert database.fetch("SELECT 2", {}) == [(2,)]
    with pytest.raises(StoreError, match="no_such_table"):
        database.fetch("SELECT * FROM no_such_table", {})
    assert database.fetch("SELECT 3", {}) == [(3,)]
