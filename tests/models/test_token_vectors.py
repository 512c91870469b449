from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from shortlist.models import TokenVectors

Floats = NDArray[np.float32]
#: Half a step of the int8 form, and what float32 adds.
ROUNDING = 0.5 / 127 + 1e-6
COORDINATES = st.floats(-1, 1, width=32)


@st.composite
def texts(draw: st.DrawFn, dim: int) -> list[Floats]:
    """Texts of no, one or several tokens: unit vectors with a weight behind them."""
    found = []
    for count in draw(st.lists(st.integers(0, 5), max_size=6)):
        vectors = draw(arrays(np.float64, (count, dim), elements=COORDINATES))
        vectors[np.linalg.norm(vectors, axis=1) < 1e-6, 0] = 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        shares = draw(arrays(np.float64, (count, 1), elements=st.integers(1, 9)))
        text = np.hstack([vectors, shares / max(1, shares.sum())])
        found.append(text.astype(np.float32))
    return found


DIMS = st.integers(1, 6)


def parted(tokens: TokenVectors) -> list[tuple[list[list[int]], list[float]]]:
    """Vectors and weights of each text."""
    bounds = tokens.starts.tolist()
    return [
        (tokens.vectors[start:end].tolist(), tokens.weights[start:end].tolist())
        for start, end in pairwise(bounds)
    ]


@given(st.data(), DIMS)
def test_what_was_given_is_held_but_for_rounding(data: st.DataObject, dim: int) -> None:
    given_texts = data.draw(texts(dim))
    tokens = TokenVectors.of(given_texts, dim)
    assert (len(tokens), tokens.dim) == (len(given_texts), dim)
    assert (tokens.vectors.dtype, tokens.weights.dtype) == (np.int8, np.float32)
    assert (tokens.starts.dtype, tokens.units().dtype) == (np.int64, np.float32)
    whole = np.concatenate([np.empty((0, dim + 1), np.float32), *given_texts])
    assert tokens.starts.tolist() == [
        sum(len(text) for text in given_texts[:count]) for count in range(len(given_texts) + 1)
    ]
    np.testing.assert_allclose(tokens.units(), whole[:, :-1], rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(tokens.weights, whole[:, -1])


@given(st.data(), DIMS)
def test_any_texts_are_taken_in_any_order(data: st.DataObject, dim: int) -> None:
    tokens = TokenVectors.of(data.draw(texts(dim)), dim)
    places = st.integers(0, max(0, len(tokens) - 1))
    rows = data.draw(st.lists(places, max_size=12 if len(tokens) else 0))
    taken = tokens.take(rows)
    assert len(taken) == len(rows)
    assert taken.dim == dim
    whole = parted(tokens)
    assert parted(taken) == [whole[row] for row in rows]
    assert parted(tokens.take(np.array(rows, np.int64))) == parted(taken)


@given(st.data(), DIMS)
def test_parts_are_joined_and_taken_apart_again(data: st.DataObject, dim: int) -> None:
    parts = [
        TokenVectors.of(part, dim)
        for part in data.draw(st.lists(texts(dim), min_size=1, max_size=4))
    ]
    whole = TokenVectors.joined(parts)
    assert parted(whole) == [text for part in parts for text in parted(part)]
    assert (whole.vectors.dtype, whole.weights.dtype) == (np.int8, np.float32)
    first = 0
    for part in parts:
        again = whole.take(range(first, first + len(part)))
        first += len(part)
        assert again.starts.tolist() == part.starts.tolist()
        assert parted(again) == parted(part)


def test_the_ends_of_the_scale_are_kept() -> None:
    tokens = TokenVectors.of([np.array([[1, 0, 0.25], [0, -1, 0.75]], np.float32)], 2)
    assert tokens.vectors.tolist() == [[127, 0], [0, -127]]
    assert tokens.units().tolist() == [[1, 0], [0, -1]]
