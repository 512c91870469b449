"""Train a cross-encoder to tell a request's tool from those that an encoder takes for it.

`python -m shortlist.models.training.reranker --help` lists the options. A run writes into its
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

#: Weights that the cross-encoder's logit is tried with, added to the cosine.
WEIGHTS = (0.01, 0.02, 0.04, 0.08)


@dataclass(frozen=True, slots=True)
class RerankRecipe:
    """Everything that decides a run, besides the data and the start.

    Args:
        seed: of all that is drawn.
        steps: optimiser steps; the learning rate falls to zero at the last.
        minutes: wall-clock limit that ends the run before `steps`, or None.
        learning_rate: peak, after a warm-up over the first `warmup` share.
        warmup: share of the run.
        weight_decay: AdamW's.
        requests: lists in a step.
        negatives: tools of a list beside the one that serves the request.
        pool: hardest tools of each request that the negatives are drawn from.
        layers: of the transformer that are kept, None for all.
        frozen: of those, how many stay as they are.
        max_length: tokens of a pair that are read.
        easy: share of requests from the sets with easy words, against one for the `hard` sets.
        hard: sets drawn from in full.
        finalists: tools of each development request that are scored.
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
    """`size` tools a request, the first of which serves it; texts of all pairs in one row."""

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    size: int


def draw(
    data: TrainingData,
    mined: Sequence[tuple[int, ...]],
    recipe: RerankRecipe,
    step: int,
) -> Lists:
    """The lists of a step, which depend on nothing but the seed and the step.

    Args:
        data: tools and requests.
        mined: hard negatives of each request.
        recipe: how many of what.
        step: from 0.
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
        """hit@1 and the rest by the weight of the logit, "0" for the encoder alone.

        Args:
            model: scores the candidates.
            max_length: tokens of a pair that it reads.
        """
        tools = self.labelled.tools
        queries = [text for text in self.labelled.queries for _ in self.candidates[0]]
        documents = [tools[place].text for place in self.candidates.ravel()]
        model.eval()
        logits = model.score(queries, documents, max_length).reshape(self.candidates.shape)
        model.train()
        found = {}
        for weight in (0.0, *WEIGHTS):
            scores = np.full((len(self.labelled.queries), len(tools)), -np.inf, np.float32)
            np.put_along_axis(scores, self.candidates, self.cosines + weight * logits, axis=1)
            found[f"{weight:g}"] = ranking_figures(
                scores, self.labelled.relevant, self.labelled.styles
            )["all"]
        return found


class RerankTraining(TrainingRun):
    """A run of a recipe, from a start or from where it was interrupted.

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
        """Score the finals; keep the weights if their best sum with the cosine is the best yet."""
        figures = self._finals.figures(self._model, self._recipe.max_length)
        sums = (figures[f"{weight:g}"] for weight in WEIGHTS)
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
    """Hard negatives of each request, found with the encoder that will choose the candidates."""
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
            help="Folder with judged_tools.jsonl and queries.jsonl; chooses the checkpoint."
        ),
    ],
    encoder: Annotated[Path, typer.Option(help="Encoder that finds the candidates.")],
    stock: Annotated[Path, typer.Option(help="Untrained encoder that near twins are found with.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one continues.")],
    start: Annotated[
        Path | None, typer.Option(help="Cross-encoder or encoder to start from; else the encoder.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all that is drawn.")] = _DEFAULT.seed,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = _DEFAULT.steps,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    learning_rate: Annotated[float, typer.Option(help="Peak.")] = _DEFAULT.learning_rate,
    layers: Annotated[int | None, typer.Option(help="Layers that are kept.")] = None,
    frozen: Annotated[int, typer.Option(help="Layers that stay.")] = _DEFAULT.frozen,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Train on CUDA where there is one, else on the CPU."""
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
