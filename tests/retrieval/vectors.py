"""Vectors, masks and plain references that the contract of the stages is checked against."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from shortlist.retrieval import Ranking

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


def normalised(values: NDArray[np.floating]) -> Floats:
    """Rows at unit length; zero rows stay zero."""
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    return (values / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def clustered(rows: int, dim: int, seed: int = 0, clusters: int = 20) -> Floats:
    """Unit vectors in clusters, as the tools of a catalog are."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, dim))
    members = centres[random.integers(clusters, size=rows)]
    return normalised(members + 0.5 * random.normal(size=(rows, dim)))


def brute_force(vectors: Floats, vector: Floats, depth: int, allowed: Mask | None) -> Ranking:
    """Every admitted row by its inner product, ties by row, in plain Python."""
    scores = np.einsum("ij,j->i", vectors, vector)
    rows = [row for row in range(len(vectors)) if allowed is None or allowed[row]]
    rows.sort(key=lambda row: (-scores[row], row))
    best = np.array(rows[:depth], np.int64)
    return Ranking(best, scores[best])


def assert_ranked(ranking: Ranking, depth: int, allowed: Mask | None = None) -> None:
    """What holds for every ranking of every stage."""
    assert ranking.rows.shape == ranking.scores.shape
    assert len(ranking) <= depth
    assert len(set(ranking.rows.tolist())) == len(ranking)
    pairs = list(zip((-ranking.scores).tolist(), ranking.rows.tolist(), strict=True))
    assert pairs == sorted(pairs)
    if allowed is not None:
        assert allowed[ranking.rows].all()


def assert_same(found: Ranking, expected: Ranking, tolerance: float = 0.0) -> None:
    """The same rows in the same order with the same scores."""
    assert found.rows.tolist() == expected.rows.tolist()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=tolerance, atol=tolerance)


def masks(rows: int) -> st.SearchStrategy[Mask]:
    """Masks that admit few, some or nearly all rows."""
    return st.integers(0, 2**32 - 1).flatmap(
        lambda seed: st.sampled_from([0.0, 0.005, 0.05, 0.3, 0.9, 1.0]).map(
            lambda share: np.random.default_rng(seed).random(rows) < share
        )
    )


#: Few distinct coordinates, so that duplicates, opposites and ties are the rule.
COARSE = st.sampled_from([0.0, 1.0, -1.0, 0.5])
#: Coordinates that differ in the last bits, so that near ties are the rule.
NEARLY_EQUAL = st.integers(-3, 3).map(lambda step: 1.0 + step * 1e-7)
ANY = st.floats(-1, 1, width=32, allow_subnormal=False)


@st.composite
def vector_sets(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Vectors of shape (n, dim) with a query of shape (dim,), all of unit length or zero."""
    dim = draw(st.integers(1, 9))
    rows = draw(st.integers(0, 40))
    elements = draw(st.sampled_from([COARSE, NEARLY_EQUAL, ANY]))
    values = draw(arrays(np.float64, (rows, dim), elements=elements))
    query = draw(arrays(np.float64, (dim,), elements=elements))
    return normalised(values), normalised(query)


@st.composite
def row_changes(draw: st.DrawFn, size: int, limit: int) -> list[tuple[int, list[int]]]:
    """A few changes of an index of `size` rows: the new number of rows, and the rows to set."""
    changes = []
    for _ in range(draw(st.integers(1, 5))):
        after = max(0, min(limit, size + draw(st.integers(-6, 6))))
        some = draw(st.sets(st.integers(0, max(0, after - 1)), max_size=6))
        rows = sorted({row for row in some if row < after} | set(range(size, after)))
        changes.append((after, rows))
        size = after
    return changes
