"""The search in PostgreSQL beyond the contract: the graph of vectors, closed connections."""

from __future__ import annotations

import numpy as np
import pytest

from shortlist.errors import StoreError
from shortlist.retrieval.postgres.database import Database, single_connection
from shortlist.retrieval.postgres.stored_search import VectorSearch

from .stored_backends import StoredDenseBackend
from .vectors import assert_ranked, brute_force, clustered

ROWS, DIM = 2_500, 24
VECTORS = clustered(ROWS, DIM)
QUERIES = clustered(30, DIM, seed=7)


@pytest.fixture(scope="module")
def vector_index(shared_dsn: str) -> object:
    return StoredDenseBackend(shared_dsn).build(VECTORS)


def test_a_large_catalog_is_searched_by_its_graph(shared_dsn: str, vector_index: object) -> None:
    statement, parameters = VectorSearch(QUERIES[0], 1).statement("s", exact=False)
    search = vector_index.search_
    parameters |= {"tenant": 1, "depth": 10, "mask": search.rows.bits(None)}
    with Database(shared_dsn, "tenant-0").connection() as connection:
        rows = connection.execute(f"EXPLAIN {statement}".encode(), parameters).fetchall()
    assert any("Index Scan using vectors_of_1" in line for (line,) in rows)


@pytest.mark.parametrize("share", [None, 0.5, 0.9])
def test_the_graph_finds_the_true_neighbours_inside_a_mask(
    vector_index: object, share: float | None
) -> None:
    mask = None if share is None else np.random.default_rng(3).random(ROWS) < share
    assert not vector_index.search_._compares_all(ROWS if mask is None else int(mask.sum()), 10)
    shared = 0
    for vector in QUERIES:
        ranking = vector_index.search(vector, 10, mask)
        assert_ranked(ranking, 10, mask)
        assert len(ranking) == 10
        true_rows = brute_force(VECTORS, vector, 10, mask).rows
        shared += len(set(ranking.rows.tolist()) & set(true_rows.tolist()))
        np.testing.assert_allclose(ranking.scores, VECTORS[ranking.rows] @ vector, atol=1e-6)
    assert shared >= 0.95 * 10 * len(QUERIES), shared


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
