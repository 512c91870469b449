"""What every dense index owes its callers, whichever backend it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .vectors import (
    Mask,
    assert_ranked,
    assert_same,
    brute_force,
    clustered,
    masks,
    normalised,
)

ROWS, DIM = 600, 24
VECTORS = clustered(ROWS, DIM)
QUERIES = clustered(40, DIM, seed=7)


@pytest.fixture(scope="module")
def index(dense_backend: Any) -> Any:
    return dense_backend.build(VECTORS)


@settings(deadline=None, max_examples=60)
@given(query=st.integers(0, len(QUERIES) - 1), depth=st.integers(1, 2 * ROWS))
def test_rankings_are_sorted_and_within_depth(index: Any, query: int, depth: int) -> None:
    found = index.search(QUERIES[query], depth)
    assert_ranked(found, depth)
    assert len(found) == min(depth, ROWS)


@settings(deadline=None, max_examples=100)
@given(query=st.integers(0, len(QUERIES) - 1), depth=st.integers(1, 60), mask=masks(ROWS))
def test_a_mask_is_honoured_inside_the_search(
    index: Any, query: int, depth: int, mask: Mask
) -> None:
    found = index.search(QUERIES[query], depth, mask)
    assert_ranked(found, depth, mask)
    assert len(found) == min(depth, np.count_nonzero(mask))


@settings(deadline=None, max_examples=40)
@given(query=st.integers(0, len(QUERIES) - 1), mask=masks(ROWS))
def test_a_search_of_every_row_is_the_true_ranking(index: Any, query: int, mask: Mask) -> None:
    vector = QUERIES[query]
    assert_same(index.search(vector, ROWS, mask), brute_force(VECTORS, vector, ROWS, mask), 1e-6)


@pytest.mark.parametrize("share", [None, 0.02, 0.2, 0.6])
def test_recall_of_the_true_neighbours(index: Any, share: float | None) -> None:
    mask = None if share is None else np.random.default_rng(3).random(ROWS) < share
    found = wanted = 0
    for vector in QUERIES:
        true = set(brute_force(VECTORS, vector, 10, mask).rows.tolist())
        found += len(true & set(index.search(vector, 10, mask).rows.tolist()))
        wanted += len(true)
    assert found >= 0.95 * wanted


def test_scores_are_inner_products(index: Any) -> None:
    found = index.search(QUERIES[0], 25)
    np.testing.assert_allclose(found.scores, VECTORS[found.rows] @ QUERIES[0], atol=1e-6)


def test_the_same_vectors_give_the_same_answers(dense_backend: Any, index: Any) -> None:
    again = dense_backend.build(VECTORS.copy())
    for vector in QUERIES:
        assert_same(again.search(vector, 15), index.search(vector, 15))


def test_equal_vectors_rank_by_row(dense_backend: Any) -> None:
    vectors = np.repeat(np.eye(3, 8, dtype=np.float32), 5, axis=0)
    found = dense_backend.build(vectors).search(np.eye(8, dtype=np.float32)[1], 15)
    assert found.rows.tolist() == [5, 6, 7, 8, 9, *range(5), *range(10, 15)]


@pytest.mark.parametrize("mask", [None, np.zeros(0, np.bool_)])
def test_an_empty_index_finds_nothing(dense_backend: Any, mask: Mask | None) -> None:
    index = dense_backend.build(np.empty((0, DIM), np.float32))
    assert len(index.search(QUERIES[0], 5, mask)) == 0


def test_a_single_row(dense_backend: Any) -> None:
    index = dense_backend.build(VECTORS[:1])
    assert index.search(QUERIES[0], 5).rows.tolist() == [0]
    assert index.search(QUERIES[0], 5, np.array([True])).rows.tolist() == [0]
    assert index.search(QUERIES[0], 5, np.array([False])).rows.tolist() == []


def test_depth_zero_finds_nothing(index: Any) -> None:
    assert len(index.search(QUERIES[0], 0)) == 0


def test_a_mask_of_nothing_finds_nothing(index: Any) -> None:
    assert len(index.search(QUERIES[0], 5, np.zeros(ROWS, np.bool_))) == 0


def test_zero_vectors_do_no_harm(dense_backend: Any) -> None:
    zeros = np.zeros((3, DIM), np.float32)
    assert len(dense_backend.build(zeros).search(QUERIES[0], 3)) == 3
    mixed = dense_backend.build(np.concatenate([zeros, VECTORS[:5]]))
    assert len(mixed.search(np.zeros(DIM, np.float32), 8)) == 8


@pytest.mark.parametrize("rows", [0, 1, 50, ROWS])
def test_what_is_saved_is_what_is_loaded(dense_backend: Any, tmp_path: Path, rows: int) -> None:
    built = dense_backend.build(VECTORS[:rows])
    built.save(tmp_path)
    loaded = dense_backend.load(tmp_path, VECTORS[:rows])
    mask = np.arange(rows) % 3 == 0
    for vector in QUERIES[:8]:
        assert_same(loaded.search(vector, 12), built.search(vector, 12))
        assert_same(loaded.search(vector, 12, mask), built.search(vector, 12, mask))


def test_a_search_changes_neither_index_nor_mask(index: Any) -> None:
    mask = np.arange(ROWS) % 2 == 0
    before, first = mask.copy(), index.search(QUERIES[0], 10)
    index.search(QUERIES[1], 10, mask)
    assert (mask == before).all()
    assert_same(index.search(QUERIES[0], 10), first)


def test_vectors_mapped_from_disk_serve_as_well(dense_backend: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", VECTORS)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    query = normalised(VECTORS[3] + VECTORS[4])
    assert_same(
        dense_backend.build(mapped).search(query, 9), dense_backend.build(VECTORS).search(query, 9)
    )
