"""Trains a cross-encoder that finds a request's tool among the first hits of an encoder.

`python -m shortlist.lab.training.reranker --help` lists the options. A run writes into its
folder: `best/` (Hugging Face layout and the head), `record.json` and `state.pt`, from which the
same command continues an interrupted run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich import print_json

from .cross_encoder import CrossEncoder
from .data import TrainingData, read_training_data
from .encoder_training import near_twins
from .evaluate import QUERY_LENGTH, TOOL_LENGTH, LabelledSet, ranking_figures
from .loop import TrainingRun
from .negatives import mine
from .program import run_program
from .recipe import RunRecord
from .text_encoder import TextEncoder
from .views import shown

#: Weights of the logit that are tried in the sum with the cosine.
WEIGHTS_FOLDER = (0.01, 0.02, 0.04, 0.08)


@dataclass(frozen=True, slots=True)
class RerankRecipe:
    """All settings of a run, except for data and start.

    Args:
        seed: random seed.
        steps: optimiser steps; the learning rate falls to zero at the last.
        minutes: wall-clock limit; None for no limit.
        learning_rate: peak, after a warm-up over the first `warmup` share.
        warmup: share of the run.
        weight_decay: weight decay of AdamW.
        requests: number of requests in a step.
        negatives: number of negatives for each request.
        pool: number of hardest tools of each request to draw the negatives from.
        layers: number of first layers that are used; None for all.
        frozen: number of first layers that are not trained.
        max_length: most tokens of a pair.
        easy: share of the requests of easy sets that is used; the `hard` sets are used in full.
        hard: names of the sets that are used in full.
        finalists: number of tools to score for each development request.
        evaluate_every: steps between evaluations.
    """

    seed: int = 0
    steps: int = 1000
    minutes: float | None = None
    learning_rate: float = 1.5e-4
    warmup: float = 0.05
    weight_decay: float = 0.01
    requests: int = 12
    negatives: int = 7
    pool: int = 20
    layers: int | None = None
    frozen: int = 2
    max_length: int = 96
    easy: float = 1 / 3
    hard: tuple[str, ...] = ("mcp", "mcp_crawl")
    finalists: int = 12
    evaluate_every: int = 200


@dataclass(frozen=True, slots=True)
class Lists:
    """`size` tools for each request, the relevant one first, as one row of pairs."""

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    size: int


def draw(
    data: TrainingData,
    mined: Sequence[tuple[int, ...]],
    recipe: RerankRecipe,
    step: int,
) -> Lists:
    """The lists of a step. They depend only on the seed and the step.

    Args:
        data: tools and requests.
        mined: hard negatives of each request.
        recipe: the settings.
        step: number of the step, from 0.
    """
    rng = random.Random(recipe.seed * 1_000_003 + step)
    queries: list[str] = []
    documents: list[str] = []
    lists = 0
    while lists < recipe.requests:
        place = rng.randrange(len(data.requests))
        request = data.requests[place]
        if request.source not in recipe.hard and rng.random() >= recipe.easy:
            continue
        negatives = rng.sample(mined[place], min(len(mined[place]), recipe.negatives))
        taken = {*request.relevant, *request.also, *negatives}
        while len(negatives) < recipe.negatives:
            other = rng.randrange(len(data.tools))
            if other not in taken:
                taken.add(other)
                negatives.append(other)
        for tool in (rng.choice(request.relevant), *negatives):
            queries.append(request.text)
            documents.append(shown(data.tools[tool], rng))
        lists += 1
    return Lists(tuple(queries), tuple(documents), recipe.negatives + 1)


@dataclass(frozen=True, slots=True)
class Finals:
    """A labelled set with the candidates that an encoder finds.

    candidates: (n, finalists) positions of tools; cosines: (n, finalists).
    """

    labelled: LabelledSet
    candidates: NDArray[np.intp]
    cosines: NDArray[np.float32]

    @classmethod
    def of(cls, labelled: LabelledSet, encoder: TextEncoder, finalists: int) -> Finals:
        """The `finalists` tools nearest to each request."""
        tools = encoder.encode([tool.text for tool in labelled.tools], TOOL_LENGTH)
        cosines = encoder.encode(labelled.queries, QUERY_LENGTH) @ tools.T
        candidates = np.argsort(-cosines, axis=1, kind="stable")[:, :finalists]
        return cls(labelled, candidates, np.take_along_axis(cosines, candidates, axis=1))

    def figures(self, model: CrossEncoder, max_length: int) -> dict[str, dict[str, float]]:
        """Ranking figures for each weight of the logit; "0" is the encoder alone.

        Args:
            model: scores the candidates.
            max_length: most tokens of a pair.
        """
        tools = self.labelled.tools
        queries = [text for text in self.labelled.queries for _ in self.candidates[0]]
        documents = [tools[place].text for place in self.candidates.ravel()]
        model.eval()
        logits = model.score(queries, documents, max_length).reshape(self.candidates.shape)
        model.train()
        found = {}
        for weight in (0.0, *WEIGHTS_FOLDER):
            scores = np.full((len(self.labelled.queries), len(tools)), -np.inf, np.float32)
            np.put_along_axis(scores, self.candidates, self.cosines + weight * logits, axis=1)
            found[f"{weight:g}"] = ranking_figures(
                scores, self.labelled.relevant, self.labelled.styles
            )["all"]
        return found


class RerankTraining(TrainingRun):
    """A training run, new or continued.

    Args:
        recipe: the settings.
        data: tools and requests.
        mined: hard negatives of each request.
        finals: labelled set that chooses the best checkpoint; never trained on.
        start: folder of the transformer to start from.
        out: folder of the run.
        device: where to train.
    """

    def __init__(
        self,
        recipe: RerankRecipe,
        data: TrainingData,
        mined: Sequence[tuple[int, ...]],
        finals: Finals,
        *,
        start: Path,
        out: Path,
        device: torch.device,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self._recipe = recipe
        self._data = data
        self._mined = mined
        self._finals = finals
        self._model = CrossEncoder(start, device, layers=recipe.layers, frozen=recipe.frozen)
        trained = [one for one in self._model.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=0.0, weight_decay=recipe.weight_decay)
        record = RunRecord(asdict(recipe), start.name, data.counts())
        super().__init__(recipe, record, out, optimizer, trained, data.fingerprint)

    def _update(self) -> float:
        recipe = self._recipe
        lists = draw(self._data, self._mined, recipe, self._step)
        logits = self._model(lists.queries, lists.documents, recipe.max_length)
        rows = logits.view(-1, lists.size)
        answers = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        return self._descend(torch.nn.functional.cross_entropy(rows, answers))

    def _evaluate(self, loss: float) -> None:
        """Evaluate on the development set. Save the weights with the best sum."""
        figures = self._finals.figures(self._model, self._recipe.max_length)
        sums = (figures[f"{weight:g}"] for weight in WEIGHTS_FOLDER)
        score = max(one["hit@1"] + one["recall@10"] for one in sums)
        self._keep(loss, {"weight": figures}, score)
        self._save_state()

    def _save_best(self) -> None:
        self._model.save(self._out / "best")

    def _state(self) -> dict[str, Any]:
        return {"model": self._model.state_dict()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._model.load_state_dict(state["model"])


def mined_negatives(
    data: TrainingData, encoder: TextEncoder, stock: Path, out: Path, pool: int
) -> list[tuple[int, ...]]:
    """Hard negatives of each request, from the encoder that will choose the candidates."""
    cache = out / f"mined-{data.fingerprint}.npy"
    if not cache.exists():
        twins = near_twins(data, stock, out, encoder.device)
        asked = encoder.encode([request.text for request in data.requests], QUERY_LENGTH)
        tools = encoder.encode([tool.text for tool in data.tools], TOOL_LENGTH)
        found = mine(data.requests, data.tools, twins, asked, tools, each=pool)
        table = np.full((len(found), pool), -1, np.int32)
        for row, negatives in enumerate(found):
            table[row, : len(negatives)] = negatives
        np.save(cache, table)
    return [tuple(row[row >= 0].tolist()) for row in np.load(cache)]


_DEFAULT = RerankRecipe()


def main(
    data: Annotated[Path, typer.Option(help="Folder of sets in the common form to train on.")],
    development: Annotated[
        Path,
        typer.Option(
            help="Folder with judged_tools.jsonl and queries.jsonl, to choose the checkpoint."
        ),
    ],
    encoder: Annotated[Path, typer.Option(help="Encoder that finds the candidates.")],
    stock: Annotated[Path, typer.Option(help="Untrained encoder to find near twins with.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one continues.")],
    start: Annotated[
        Path | None,
        typer.Option(help="Encoder or cross-encoder to start from."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = _DEFAULT.seed,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = _DEFAULT.steps,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    learning_rate: Annotated[
        float, typer.Option(help="Peak of the rate.")
    ] = _DEFAULT.learning_rate,
    layers: Annotated[int | None, typer.Option(help="First layers to use.")] = None,
    frozen: Annotated[int, typer.Option(help="First layers not to train.")] = _DEFAULT.frozen,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Train on CUDA if there is one, otherwise on the CPU."""
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recipe = RerankRecipe(
        seed=seed,
        steps=steps,
        minutes=minutes,
        learning_rate=learning_rate,
        layers=layers,
        frozen=frozen,
    )
    out.mkdir(parents=True, exist_ok=True)
    sets = read_training_data(data, seed=seed)
    finder = TextEncoder(encoder, device).eval()
    labelled = LabelledSet.read(development / "judged_tools.jsonl", development / "queries.jsonl")
    record = RerankTraining(
        recipe,
        sets,
        mined_negatives(sets, finder, stock, out, recipe.pool),
        Finals.of(labelled, finder, recipe.finalists),
        start=start or encoder,
        out=out,
        device=device,
    ).run()
    best: dict[str, Any] = next(p for p in record.curve if p["step"] == record.best_step)
    print_json(data=best)


if __name__ == "__main__":
    run_program(main)
