"""Settings of a training run, and its record."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .batches import Mixture


@dataclass(frozen=True, slots=True)
class Recipe:
    """All settings of a run, except for data and start.

    Args:
        seed: random seed.
        steps: optimiser steps; the learning rate falls to zero at the last.
        minutes: wall-clock limit; None for no limit. If it ends the run before `steps`, the
            learning rate falls to zero at the limit.
        learning_rate: peak, after a warm-up over the first `warmup` share.
        warmup: share of the run.
        weight_decay: weight decay of AdamW.
        temperature: temperature of the loss.
        averaging: decay per step of the running average of the weights, which is evaluated and
            saved.
        query_length: most tokens of a request in training.
        tool_length: most tokens of a tool in training.
        mine_after: steps after which hard negatives are mined with the present encoder.
        evaluate_every: steps between evaluations.
        mixture: composition of a batch.
    """

    seed: int = 0
    steps: int = 1500
    minutes: float | None = None
    learning_rate: float = 1e-4
    warmup: float = 0.05
    weight_decay: float = 0.01
    temperature: float = 0.05
    averaging: float = 0.98
    query_length: int = 96
    tool_length: int = 80
    mine_after: tuple[int, ...] = (0, 400)
    evaluate_every: int = 50
    mixture: Mixture = field(default_factory=Mixture)


@dataclass(slots=True)
class RunRecord:
    """Settings and figures of a run; written after each evaluation.

    `unseen`: figures of the saved checkpoint on requests for held-out servers.
    """

    recipe: dict[str, Any]
    start: str
    data: dict[str, dict[str, int]]
    curve: list[dict[str, Any]] = field(default_factory=list)
    best_step: int = 0
    best_score: float = -math.inf
    seconds: float = 0.0
    unseen: dict[str, dict[str, float]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write as JSON, atomically."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        part.replace(path)


def learning_rate_share(progress: float, warmup: float) -> float:
    """Share of the peak rate at `progress` (0 to 1): linear warm-up, then half a cosine to 0."""
    if progress < warmup:
        return progress / warmup
    done = min((progress - warmup) / (1 - warmup), 1.0)
    return (1 + math.cos(math.pi * done)) / 2
