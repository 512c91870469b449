from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shortlist.models import TokenVectors
from shortlist.retrieval.features import late_interaction

from .vectors import ANY, COARSE, normalised


@st.composite
def token_sets(draw: st.DrawFn, dim: int, least: int = 0, most: int = 6) -> TokenVectors:
    """Texts of at least one token each: unit vectors, weights that sum to 1."""
    texts = []
    for count in draw(st.lists(st.integers(1, 5), min_size=least, max_size=most)):
        elements = draw(st.sampled_from([COARSE, ANY]))
        vectors = draw(arrays(np.float64, (count, dim), elements=elements))
        vectors[np.linalg.norm(vectors, axis=1) < 1e-6, 0] = 1
        shares = draw(arrays(np.float32, (count, 1), elements=st.integers(1, 9)))
        texts.append(np.hstack([normalised(vectors), shares / shares.sum()]))
    return TokenVectors.of(texts, dim)


DIMS = st.integers(1, 8)


def tokens_of(text: TokenVectors) -> list[tuple[list[float], float]]:
    return list(zip(text.units().tolist(), text.weights.tolist(), strict=True))


def token_by_token(query: TokenVectors, document: TokenVectors) -> float:
    """The definition, one pair of tokens at a time."""

    def inner(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    return sum(
        weight * max(inner(vector, other) for other, _ in tokens_of(document))
        for vector, weight in tokens_of(query)
    )


def longest(dim: int) -> float:
    """Length of a unit vector at most, once its coordinates are rounded."""
    return 1 + sqrt(dim) * 0.5 / 127


@given(st.data(), DIMS)
def test_it_is_what_the_definition_says(data: st.DataObject, dim: int) -> None:
    query = data.draw(token_sets(dim, 1, 1))
    documents = data.draw(token_sets(dim))
    found = late_interaction(query, documents)
    assert (found.dtype, found.shape) == (np.float32, (len(documents),))
    expected = [token_by_token(query, documents.take([row])) for row in range(len(documents))]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


@given(st.data(), DIMS)
def test_what_else_a_document_says_takes_nothing_away(data: st.DataObject, dim: int) -> None:
    query, document = data.draw(token_sets(dim, 1, 1)), data.draw(token_sets(dim, 1, 1))
    longer = TokenVectors(
        np.concatenate([document.vectors, query.vectors]),
        np.concatenate([document.weights, query.weights]) / 2,
        np.array([0, len(document.vectors) + len(query.vectors)]),
    )
    assert late_interaction(query, longer)[0] >= late_interaction(query, document)[0] - 1e-6


@given(st.data(), DIMS)
def test_it_lies_between_opposite_and_equal(data: st.DataObject, dim: int) -> None:
    documents = data.draw(token_sets(dim, 1))
    query = data.draw(token_sets(dim, 1, 1))
    bound = longest(dim) ** 2 + 1e-5
    assert (np.abs(late_interaction(query, documents)) <= bound).all()
    for row in range(len(documents)):
        itself = late_interaction(documents.take([row]), documents.take([row]))[0]
        assert 2 - bound <= itself <= bound


@given(st.data(), DIMS)
def test_a_candidate_is_not_measured_by_the_others(data: st.DataObject, dim: int) -> None:
    query = data.draw(token_sets(dim, 1, 1))
    documents = data.draw(token_sets(dim, 1))
    rows = data.draw(st.lists(st.integers(0, len(documents) - 1), max_size=9))
    alone = late_interaction(query, documents)[rows]
    among = late_interaction(query, documents.take(rows))
    assert among.tolist() == pytest.approx(alone.tolist(), abs=1e-6)


def test_the_weights_say_which_tokens_count() -> None:
    query = TokenVectors.of([np.array([[1, 0, 0.9], [0, 1, 0.1]], np.float32)], 2)
    documents = TokenVectors.of(
        [np.array([[1, 0, 1]], np.float32), np.array([[0, 1, 1]], np.float32)], 2
    )
    assert late_interaction(query, documents).tolist() == pytest.approx([0.9, 0.1])


def test_no_candidates_have_no_scores() -> None:
    query = TokenVectors.of([np.array([[1, 0, 1]], np.float32)], 2)
    found = late_interaction(query, TokenVectors.of([], 2))
    assert (found.dtype, found.shape) == (np.float32, (0,))
