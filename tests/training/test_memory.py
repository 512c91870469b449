from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from shortlist.models.training.contrastive import contrastive_loss  # noqa: E402
from shortlist.models.training.memory import ToolMemory  # noqa: E402

ANGLES = torch.tensor([0.0, 0.3, 0.6, 0.9, 1.2, 1.5])
TOOLS = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=1)


def _scores(count: int, answers: set[int], seen: list[int], ceiling: float) -> list[float]:
    query = torch.tensor([[1.0, 0.0]])
    memory = ToolMemory(TOOLS.clone(), torch.device("cpu"))
    found = memory.scores(query, torch.tensor([ceiling]), [frozenset(answers)], seen, count)
    return [round(value, 4) for value in found[0].tolist()]


def _cosines(*places: int) -> list[float]:
    return [round(ANGLES[place].cos().item(), 4) for place in places]


def test_the_hardest_come_first_without_answers_and_batch() -> None:
    assert _scores(2, {0}, [2], 1.0) == _cosines(1, 3)


def test_what_outscores_the_positive_is_left_out() -> None:
    assert _scores(2, {0}, [], ANGLES[2].cos().item()) == _cosines(3, 4)


def test_what_is_left_out_vanishes_from_the_loss() -> None:
    assert _scores(6, set(range(6)), [], 1.0) == [-1.0] * 6
    positive, ignored = torch.eye(2, dtype=torch.bool), torch.zeros(2, 2, dtype=torch.bool)
    unit = torch.eye(2)
    alone = contrastive_loss(unit @ unit.T, positive, ignored, 0.05)
    beside = contrastive_loss(unit @ unit.T, positive, ignored, 0.05, torch.full((2, 6), -1.0))
    assert beside.item() == pytest.approx(alone.item(), abs=1e-6)
    harder = contrastive_loss(unit @ unit.T, positive, ignored, 0.05, torch.full((2, 6), 0.9))
    assert harder.item() > alone.item() + 0.1


def test_an_update_replaces_and_gradients_reach_queries_only() -> None:
    memory = ToolMemory(TOOLS.clone(), torch.device("cpu"))
    fresh = torch.tensor([[0.8, 0.6]], requires_grad=True)
    memory.update([5], fresh)
    assert memory.vectors[5].tolist() == pytest.approx([0.8, 0.6])
    assert not memory.vectors.requires_grad
    query = torch.tensor([[1.0, 0.0]], requires_grad=True)
    memory.scores(query, torch.tensor([1.0]), [frozenset({0})], [], 3).sum().backward()
    assert query.grad is not None
    assert query.grad.abs().sum() > 0
