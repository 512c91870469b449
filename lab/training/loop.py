"""Base class of training runs: steps, learning rate, evaluations, and continuing a run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from rich.progress import Progress, TaskID

from ...errors import EvaluationError
from .recipe import RunRecord, learning_rate_share


class Schedule(Protocol):
    """Settings of a run's length, learning rate and evaluations."""

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        ...

    @property
    def minutes(self) -> float | None:
        """Wall-clock limit, or None."""
        ...

    @property
    def learning_rate(self) -> float:
        """Peak."""
        ...

    @property
    def warmup(self) -> float:
        """Share of the run."""
        ...

    @property
    def evaluate_every(self) -> int:
        """Steps between evaluations."""
        ...


class TrainingRun(ABC):
    """A training run, new or continued.

    Args:
        schedule: length, learning rate, evaluations.
        record: record of the run, written after each evaluation.
        out: folder of the run.
        optimizer: the optimiser. Its learning rate is set before each step.
        trained: the trained parameters. Their gradients are clipped to norm 1.
        data: fingerprint of the training data.

    Raises:
        EvaluationError: the saved state in `out` is of other data or another recipe.
    """

    def __init__(
        self,
        schedule: Schedule,
        record: RunRecord,
        out: Path,
        optimizer: torch.optim.Optimizer,
        trained: Iterable[torch.nn.Parameter],
        data: str,
    ) -> None:
        self._schedule = schedule
        self._record = record
        self._out = out
        self._optimizer = optimizer
        self._trained = list(trained)
        self._made_of = {"data": data, "recipe": record.recipe, "start": record.start}
        self._step = 0
        self._seconds = 0.0
        out.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _update(self) -> float:
        """Take a step with `_descend`. Returns the loss."""

    @abstractmethod
    def _evaluate(self, loss: float) -> None:
        """Evaluate the present weights and give the figures to `_keep`."""

    @abstractmethod
    def _save_best(self) -> None:
        """Write the evaluated weights to the folder `best`."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """The state to save, besides step, record and optimiser."""

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None:
        """Restore the result of `_state`. Step and record are restored already."""

    def _prepare(self, progress: Progress, bar: TaskID) -> None:  # noqa: B027 - nothing by default
        """Work before a step, which does not count in its time."""

    def run(self) -> RunRecord:
        """Train until the last step or minute. Returns the record, which is also saved."""
        if (self._out / "state.pt").exists():
            self._resume()
        with Progress() as progress:
            bar = progress.add_task("training", total=self._schedule.steps, completed=self._step)
            while self._progress() < 1:
                self._prepare(progress, bar)
                began = time.monotonic()
                loss = self._update()
                self._seconds += time.monotonic() - began
                progress.update(bar, completed=self._step, description=f"loss {loss:.3f}")
                if self._step % self._schedule.evaluate_every == 0 or self._progress() >= 1:
                    self._evaluate(loss)
        return self._record

    def _progress(self) -> float:
        """Finished share of the run, 0 to 1."""
        share = self._step / self._schedule.steps
        if self._schedule.minutes:
            share = max(share, self._seconds / (60 * self._schedule.minutes))
        return share

    def _descend(self, loss: torch.Tensor) -> float:
        """One optimiser step for a loss. Returns its value."""
        share = learning_rate_share(self._progress(), self._schedule.warmup)
        for group in self._optimizer.param_groups:
            group["lr"] = self._schedule.learning_rate * share
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._trained, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._step += 1
        return loss.item()

    def _keep(self, loss: float, figures: dict[str, Any], score: float) -> None:
        """Record an evaluation, and save the weights if they are the best so far."""
        record = self._record
        record.curve.append(
            {"step": self._step, "seconds": round(self._seconds), "loss": loss, **figures}
        )
        record.seconds = self._seconds
        if score > record.best_score:
            record.best_score, record.best_step = score, self._step
            self._save_best()
        record.write(self._out / "record.json")

    def _save_state(self) -> None:
        state = {
            **self._state(),
            "optimizer": self._optimizer.state_dict(),
            "step": self._step,
            "record": asdict(self._record),
            "made_of": self._made_of,
        }
        part = self._out / "state.part"
        torch.save(state, part)
        part.replace(self._out / "state.pt")

    def _resume(self) -> None:
        path = self._out / "state.pt"
        state = torch.load(path, weights_only=True)
        before = state.get("made_of", {})
        if other := [part for part, made in self._made_of.items() if before.get(part) != made]:
            raise EvaluationError(
                f"{path}: state of a run with another {' and '.join(other)}; remove it, or choose "
                f"another folder than {self._out}"
            )
        self._optimizer.load_state_dict(state["optimizer"])
        self._step = state["step"]
        self._record = RunRecord(**state["record"])
        self._seconds = self._record.seconds
        self._restore(state)
