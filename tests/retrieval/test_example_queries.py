"""Vectors of tools in a catalog with queries from usage."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist.retrieval.example_queries import (
    LENGTH_WITH_USAGE,
    ExampleQueries,
    has_usage,
    moved_with_usage,
)

DIM = 24


def unit(values: NDArray[np.float64]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(
        np.float32
    )
    return scaled


@pytest.fixture
def bent() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Vectors of 200 definitions, and of their queries: all are turned in the same way."""
    random = np.random.default_rng(3)
    definitions = random.normal(size=(200, DIM))
    turn = np.linalg.qr(random.normal(size=(DIM, DIM)))[0]
    return unit(definitions), unit(definitions + 2 * definitions @ turn)


def from_usage(count: int) -> list[ExampleQueries]:
    return [ExampleQueries((f"query {number}",), sources=("usage",)) for number in range(count)]


def test_tools_without_queries_come_nearer_to_theirs(
    bent: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    definitions, queries = bent
    rows = np.arange(120)
    moved = moved_with_usage(definitions, rows, queries[rows], from_usage(len(rows)))
    before = (queries @ definitions.T).argmax(axis=1) == np.arange(200)
    after = (queries @ moved.T).argmax(axis=1) == np.arange(200)
    assert after[120:].mean() > before[120:].mean() + 0.2
    lengths = np.linalg.norm(moved, axis=1)
    np.testing.assert_allclose(lengths[:120], LENGTH_WITH_USAGE, atol=1e-5)
    np.testing.assert_allclose(lengths[120:], 1, atol=1e-5)


def test_queries_of_other_sources_teach_nothing(
    bent: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> None:
    definitions, queries = bent
    rows = np.arange(2)
    examples = [*from_usage(1), ExampleQueries(("by hand",), sources=("hand",))]
    one = moved_with_usage(definitions, rows, queries[rows], examples)
    other = moved_with_usage(definitions, rows, np.stack([queries[0], -queries[1]]), examples)
    np.testing.assert_array_equal(np.delete(one, 1, axis=0), np.delete(other, 1, axis=0))
    assert has_usage({"a": examples[0]})
    assert not has_usage({"b": examples[1]})
