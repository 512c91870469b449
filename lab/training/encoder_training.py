"""A training run of the encoder: steps, mining, evaluation, and its saved state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress, TaskID

from .batches import Batches, TrainingBatch
from .contrastive import contrastive_loss
from .data import TrainingData
from .evaluate import LabelledSet, evaluate
from .loop import TrainingRun
from .negatives import TrainingTwins, mine
from .recipe import Recipe, RunRecord
from .text_encoder import TextEncoder

#: Most tokens of a tool for the comparison of near twins.
_TWIN_LENGTH = 80


def _encode(
    encoder: TextEncoder, texts: Sequence[str], max_length: int, what: str
) -> NDArray[np.float32]:
    with Progress() as progress:
        bar = progress.add_task(what, total=len(texts))
        return encoder.encode(texts, max_length, lambda done: progress.update(bar, completed=done))


def near_twins(data: TrainingData, encoder: Path, out: Path, device: torch.device) -> TrainingTwins:
    """Find the near twins among the tools with an encoder that was not trained on them.

    Args:
        data: the tools.
        encoder: folder of the encoder. The thresholds are for the stock all-MiniLM-L6-v2.
        out: folder where the vectors are saved for the next run.
        device: where to encode.
    """
    cache = out / f"stock-vectors-{data.tools_fingerprint}.npy"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        texts = [tool.text for tool in data.tools]
        vectors = _encode(TextEncoder(encoder, device), texts, _TWIN_LENGTH, "finding twins")
        np.save(cache, vectors)
    return TrainingTwins(data.tools, np.load(cache))


class Training(TrainingRun):
    """A training run, new or continued.

    Args:
        recipe: the settings.
        data: tools and requests.
        development: labelled set that chooses the best checkpoint; never trained on.
        twins: false-negative filter over the tools, see `near_twins`.
        start: folder of the encoder to start from.
        out: folder of the run.
        device: where to train.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: TrainingData,
        development: LabelledSet,
        twins: TrainingTwins,
        *,
        start: Path,
        out: Path,
        device: torch.device,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self._recipe = recipe
        self._data = data
        self._twins = twins
        self._development = development
        self._encoder = TextEncoder(start, device)
        self._average = torch.optim.swa_utils.AveragedModel(
            self._encoder,
            avg_fn=lambda average, current, _: torch.lerp(current, average, self._recipe.averaging),
        )
        optimizer = torch.optim.AdamW(
            self._encoder.parameters(),
            lr=0.0,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        record = RunRecord(asdict(recipe), start.name, data.counts())
        super().__init__(
            recipe, record, out, optimizer, self._encoder.parameters(), data.fingerprint
        )
        self._stream_began = 0
        self._mined: list[tuple[int, ...]] | None = None
        self._batches = self._stream()

    def _prepare(self, progress: Progress, bar: TaskID) -> None:
        """Mine at the steps of the recipe, and draw the batches again."""
        if self._step in self._recipe.mine_after:
            progress.update(bar, description="mining")
            self._mine()
            self._stream_began = self._step
            self._batches = self._stream()

    def _stream(self) -> Iterator[TrainingBatch]:
        """Batches since the last mining, whose step is part of their seed."""
        batches = Batches(
            self._data,
            self._twins,
            self._recipe.mixture,
            seed=self._recipe.seed * 1_000_003 + self._stream_began,
            mined=self._mined,
        )
        return iter(batches)

    def _update(self) -> float:
        batch = next(self._batches)
        recipe, device = self._recipe, self._encoder.device
        queries = self._encoder(batch.queries, recipe.query_length)
        documents = self._encoder(batch.documents, recipe.tool_length)
        positive = torch.from_numpy(batch.positive).to(device)
        ignored = torch.from_numpy(batch.ignored).to(device)
        loss = contrastive_loss(queries @ documents.T, positive, ignored, recipe.temperature)
        value = self._descend(loss)
        self._average.update_parameters(self._encoder)
        return value

    def _evaluate(self, loss: float) -> None:
        """Evaluate the averaged weights on the development set. Save the best ones."""
        average = self._averaged
        figures = evaluate(average, self._development)
        score = figures["all"]["hit@1"] + figures["all"]["recall@10"]
        self._keep(loss, figures, score)
        self._save_state()

    def _save_best(self) -> None:
        self._averaged.save(self._out / "best")

    @property
    def _averaged(self) -> TextEncoder:
        averaged = self._average.module
        assert isinstance(averaged, TextEncoder)
        return averaged

    def _mine(self) -> None:
        """Mine hard negatives with the present encoder."""
        recipe, tools, requests = self._recipe, self._data.tools, self._data.requests
        texts = [request.text for request in requests]
        asked = _encode(self._encoder, texts, recipe.query_length, "mining: requests")
        texts = [tool.text for tool in tools]
        vectors = _encode(self._encoder, texts, recipe.tool_length, "mining: tools")
        self._mined = mine(requests, tools, self._twins, asked, vectors)

    def _state(self) -> dict[str, Any]:
        return {
            "model": self._encoder.state_dict(),
            "average": self._average.state_dict(),
            "mined": self._mined,
            "stream_began": self._stream_began,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._encoder.load_state_dict(state["model"])
        self._average.load_state_dict(state["average"])
        self._mined = state["mined"]
        self._stream_began = state["stream_began"]
        self._batches = islice(self._stream(), self._step - self._stream_began, None)
