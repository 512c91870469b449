"""Losses and epochs for static vectors: distils an encoder, then trains on pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track
from torch import Tensor, nn

from .data import TrainingData
from .static_tables import Bags, TokenSum

#: Of all similarities, as in the encoder's own training.
TEMPERATURE = 0.05
BATCH = 512
#: Peak learning rates: for distilling, and for pairs.
RATE = 3e-3
PAIR_RATE = 8e-4
#: Weight of the similarities within a batch, relative to the distance to the teacher's vector.
_RELATIONS = 0.5
#: Share of the labels in a request's target. The rest is the teacher's answer.
_LABELS = 0.45
#: Number of requests from one neighbourhood in a batch, and of tools in a neighbourhood.
_NEIGHBOURHOOD = 32
_NEIGHBOURS = 24

Step = Callable[[NDArray[np.int64]], Tensor]


def distance(student: Tensor, teacher: Tensor) -> Tensor:
    """1 - cosine, plus the cross-entropy between similarities within the batch.

    Args:
        student: unit vectors, shape (n, dim).
        teacher: likewise.
    """
    target = (teacher @ teacher.T / TEMPERATURE).softmax(1)
    relations = nn.functional.cross_entropy(student @ teacher.T / TEMPERATURE, target)
    return (1 - (student * teacher).sum(1)).mean() + _RELATIONS * relations


def run_epochs(
    name: str,
    modules: Sequence[nn.Module],
    batches: Callable[[np.random.Generator], Iterator[NDArray[np.int64]]],
    step: Step,
    *,
    epochs: int,
    steps: int,
    seed: int,
    out: Path,
    rate: float = RATE,
) -> None:
    """Train for some epochs with Adam and a learning rate that falls linearly to zero.

    After each epoch the state is saved as `NAME.pt` in `out`, where the same call continues.

    Args:
        name: name of the stage.
        modules: the trained modules.
        batches: batches of one epoch, drawn by a generator.
        step: loss of a batch.
        epochs: number of epochs.
        steps: number of steps in an epoch.
        seed: random seed of the batches.
        out: folder of the run.
        rate: peak learning rate.
    """
    # Dense gradients take a quarter of the time of sparse ones, which must be sorted.
    parameters = [parameter for one in modules for parameter in one.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 1e-3, epochs * steps)
    path, first = out / f"{name}.pt", 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        first = state["epochs"]
        for module, saved in zip(modules, state["modules"], strict=True):
            module.load_state_dict(saved)
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
    for epoch in range(first, epochs):
        rng = np.random.default_rng([seed, epoch])
        what = f"{name}: epoch {epoch + 1} of {epochs}"
        for rows in track(batches(rng), total=steps, description=what):
            optimizer.zero_grad()
            loss = step(rows)
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
        state = {
            "epochs": epoch + 1,
            "modules": [module.state_dict() for module in modules],
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
        }
        torch.save(state, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)


def shuffled(count: int) -> Callable[[np.random.Generator], Iterator[NDArray[np.int64]]]:
    """Batches of all rows in random order, without the last incomplete one."""

    def batches(rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        order = rng.permutation(count)
        for start in range(0, count - BATCH + 1, BATCH):
            yield order[start : start + BATCH]

    return batches


class Neighbourhoods:
    """Batches of requests. Half of the requests are for similar tools.

    Args:
        data: requests and their tools.
        vectors: the teacher's vectors of the tools, shape (tools, dim).
    """

    def __init__(self, data: TrainingData, vectors: NDArray[np.float32]) -> None:
        self._first = np.array([request.relevant[0] for request in data.requests], np.int64)
        order = np.argsort(self._first, kind="stable")
        starts = np.searchsorted(self._first[order], np.arange(len(data.tools) + 1))
        self._requests = [order[a:b] for a, b in pairwise(starts)]
        self._near = np.empty((len(vectors), _NEIGHBOURS), np.int32)
        for start in range(0, len(vectors), 1024):
            scores = vectors[start : start + 1024] @ vectors.T
            self._near[start : start + 1024] = np.argpartition(-scores, _NEIGHBOURS, axis=1)[
                :, :_NEIGHBOURS
            ]

    def batches(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Batches of one epoch: every request once at random, and as many from neighbourhoods."""
        order, half = rng.permutation(len(self._first)), BATCH // 2
        for start in range(0, len(order) - half + 1, half):
            near = [self._neighbourhood(rng) for _ in range(half // _NEIGHBOURHOOD)]
            yield np.unique(np.concatenate([order[start : start + half], *near]))

    @property
    def steps(self) -> int:
        """Batches of one epoch."""
        return len(self._first) // (BATCH // 2)

    def _neighbourhood(self, rng: np.random.Generator) -> NDArray[np.int64]:
        tool = self._first[rng.integers(len(self._first))]
        found = np.concatenate([self._requests[near] for near in self._near[tool]])
        return rng.permutation(found)[:_NEIGHBOURHOOD]


class Pairs:
    """Loss for pairs of requests and tools.

    Args:
        data: requests and their tools.
        requests: the teacher's vectors of the requests, shape (requests, dim).
        tools: the teacher's vectors of the tools, shape (tools, dim).
    """

    def __init__(self, data: TrainingData, requests: Tensor, tools: Tensor) -> None:
        self._served = [frozenset((*one.relevant, *one.also)) for one in data.requests]
        self._first = np.array([one.relevant[0] for one in data.requests], np.int64)
        self._requests = requests
        self.tools = tools

    def documents(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tools of a batch."""
        return np.unique(self._first[rows])

    def targets(self, rows: NDArray[np.int64], documents: NDArray[np.int64]) -> Tensor:
        """Target of each request of a batch, as a distribution over tools."""
        labels = np.zeros((len(rows), len(documents)), np.float32)
        place = {tool: column for column, tool in enumerate(documents.tolist())}
        for row, request in enumerate(rows.tolist()):
            for tool in self._served[request]:
                if tool in place:
                    labels[row, place[tool]] = 1
        hard = torch.from_numpy(labels / labels.sum(1, keepdims=True))
        teacher = self._requests[rows] @ self.tools[documents].T
        return _LABELS * hard + (1 - _LABELS) * (teacher / TEMPERATURE).softmax(1)


def found(queries: Tensor, tools: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy between targets and scores of the batch."""
    return nn.functional.cross_entropy(queries @ tools.T / TEMPERATURE, targets)


class QueryTables(nn.Module):
    """Tokens and character 4-grams of queries.

    Args:
        tokens: table of tokens.
        grams: table of 4-grams.
        token_bags: tokens of each training request.
        gram_bags: 4-grams of each training request.
    """

    def __init__(
        self, tokens: TokenSum, grams: TokenSum, token_bags: Bags, gram_bags: Bags
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.grams = grams
        self._token_bags = token_bags
        self._gram_bags = gram_bags

    def forward(self, rows: NDArray[np.int64]) -> Tensor:
        """Unit vectors of some requests."""
        tokens = self.tokens(*self._token_bags.take(rows))
        grams = self.grams(*self._gram_bags.take(rows))
        return nn.functional.normalize(tokens + grams)


class ToolTables(nn.Module):
    """Tokens of definitions.

    Args:
        tokens: table of tokens.
        bags: tokens of each training tool.
    """

    def __init__(self, tokens: TokenSum, bags: Bags) -> None:
        super().__init__()
        self.tokens = tokens
        self._bags = bags

    def forward(self, rows: NDArray[np.int64]) -> Tensor:
        """Unit vectors of some definitions."""
        return nn.functional.normalize(self.tokens(*self._bags.take(rows)))
