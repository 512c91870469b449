"""The exact index equals brute force, on whatever vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.retrieval.backends.exact import ExactIndex

from .vectors import (
    Floats,
    assert_ranked,
    assert_same,
    brute_force,
    clustered,
    normalised,
    vector_sets,
)


@settings(deadline=None, max_examples=400)
@given(data=st.data(), case=vector_sets(), depth=st.integers(1, 45))
def test_it_equals_brute_force(
    data: st.DataObject, case: tuple[Floats, Floats], depth: int
) -> None:
    vectors, query = case
    mask = data.draw(
        st.none() | st.lists(st.booleans(), min_size=len(vectors), max_size=len(vectors))
    )
    allowed = None if mask is None else np.array(mask, np.bool_)
    found = ExactIndex.build(vectors).search(query, depth, allowed)
    assert_ranked(found, depth, allowed)
    assert_same(found, brute_force(vectors, query, depth, allowed))


@pytest.mark.parametrize("dim", [3, 64, 384])
@pytest.mark.parametrize("depth", [1, 10, 100])
@pytest.mark.parametrize("share", [None, 0.5, 0.1])
def test_it_equals_brute_force_on_many_rows(dim: int, depth: int, share: float | None) -> None:
    vectors = clustered(1_500, dim, seed=dim)
    index = ExactIndex.build(vectors)
    mask = None if share is None else np.random.default_rng(depth).random(1_500) < share
    for query in clustered(6, dim, seed=depth):
        assert_same(index.search(query, depth, mask), brute_force(vectors, query, depth, mask))


def test_neighbours_closer_than_the_codes_can_tell() -> None:
    # All rows within a hundredth of a quantisation step of one another: the codes are blind here.
    random = np.random.default_rng(5)
    base = normalised(random.normal(size=64))
    vectors = normalised(base + 1e-5 * random.normal(size=(2_000, 64)))
    index = ExactIndex.build(vectors)
    for query in normalised(base + 1e-5 * random.normal(size=(10, 64))):
        assert_same(index.search(query, 10), brute_force(vectors, query, 10, None))


def test_coarse_codes_of_spiked_vectors() -> None:
    # One coordinate at 1 makes the common step as coarse as it gets for all the other rows.
    random = np.random.default_rng(6)
    vectors = normalised(random.normal(size=(1_000, 256)))
    vectors[::7] = np.eye(256, dtype=np.float32)[random.integers(256, size=len(vectors[::7]))]
    index = ExactIndex.build(vectors)
    for query in [*normalised(random.normal(size=(20, 256))), *vectors[:20]]:
        assert_same(index.search(query, 5), brute_force(vectors, query, 5, None))


def test_rows_at_half_steps_where_rounding_errs_most() -> None:
    random = np.random.default_rng(8)
    steps = random.integers(-3, 3, size=(800, 128)) + 0.5
    steps[:, 0] = 127
    vectors = normalised(steps)
    index = ExactIndex.build(vectors)
    for query in normalised(random.integers(-3, 3, size=(20, 128)) + 0.5):
        assert_same(index.search(query, 7), brute_force(vectors, query, 7, None))


def test_a_row_finds_itself() -> None:
    vectors = clustered(500, 32)
    index = ExactIndex.build(vectors)
    assert [int(index.search(vector, 1).rows[0]) for vector in vectors] == list(range(500))
