from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from shortlist.lab.training.contrastive import contrastive_loss  # noqa: E402


def _masks(n: int, m: int):
    return torch.zeros(n, m, dtype=torch.bool), torch.zeros(n, m, dtype=torch.bool)


def test_equals_softmax_cross_entropy_with_one_positive_each() -> None:
    generator = torch.Generator().manual_seed(0)
    unit = torch.nn.functional.normalize
    queries = unit(torch.randn(5, 8, generator=generator), dim=-1)
    documents = unit(torch.randn(5, 8, generator=generator), dim=-1)
    positive, ignored = torch.eye(5, dtype=torch.bool), torch.zeros(5, 5, dtype=torch.bool)
    scores = queries @ documents.T / 0.05
    target = torch.arange(5)
    cross = torch.nn.functional.cross_entropy
    expected = (cross(scores, target) + cross(scores.T, target)) / 2
    found = contrastive_loss(queries @ documents.T, positive, ignored, 0.05)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


def test_positives_of_one_query_do_not_compete() -> None:
    queries = torch.tensor([[1.0, 0.0]])
    documents = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    positive, ignored = _masks(1, 2)
    positive[:] = True
    assert contrastive_loss(queries @ documents.T, positive, ignored, 1.0).item() < 1e-3


def test_ignored_pairs_change_nothing() -> None:
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    documents = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    positive, ignored = _masks(2, 3)
    positive[0, 0] = positive[1, 1] = True
    counted = contrastive_loss(queries @ documents.T, positive, ignored, 1.0).item()
    ignored[0, 2] = True
    left_out = contrastive_loss(queries @ documents.T, positive, ignored, 1.0).item()
    without = contrastive_loss(
        queries @ documents[:2].T, positive[:, :2], torch.zeros(2, 2, dtype=torch.bool), 1.0
    ).item()
    two_negatives = (math.log1p(2 / math.e) + math.log1p(2 / math.e)) / 2
    assert left_out < counted < two_negatives + 1
    # The second query still meets the third document, so only its own row differs.
    assert without < left_out
