r"""Make requests in other languages land where their English wording does.

::

    python -m shortlist.models.training.alignment --data DATA/train \
        --development DATA/eval/mcp_dev --start runs/two/best --out runs/aligned --minutes 15

The student learns to give a text in another language the vector that its start, the teacher, gives
the English one, and to give English texts the vectors they had (Reimers and Gurevych, "Making
Monolingual Sentence Embeddings Multilingual using Knowledge Distillation", EMNLP 2020). The texts
are translated requests and handfuls of words from a dictionary written for this project.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich import print_json
from rich.progress import Progress

from .data import TrainingData, read_training_data
from .evaluate import LabelledSet, evaluate
from .model import TextEncoder
from .recipe import Record, learning_rate_share

#: A word a line, its translations after it, variants with a comma between; see the README there.
DICTIONARY = Path(__file__).parent / "requests" / "words.tsv"


@dataclass(frozen=True, slots=True)
class AlignmentRecipe:
    """Everything that decides a run, besides the data and the start.

    Args:
        seed: of all that is drawn.
        steps: optimiser steps; the learning rate falls to zero at the last.
        minutes: wall-clock limit that ends the run before `steps`, or None.
        learning_rate: peak, after a warm-up over the first `warmup` share.
        warmup: share of the run.
        requests: translated requests in a step.
        phrases: handfuls of words in a step.
        words: most words of a handful.
        kept: English requests and tools in a step that are to stay where they are.
        max_length: tokens of a text that are read.
        evaluate_every: steps between evaluations.
    """

    seed: int = 0
    steps: int = 600
    minutes: float | None = None
    learning_rate: float = 5e-5
    warmup: float = 0.05
    requests: int = 48
    phrases: int = 48
    words: int = 4
    kept: int = 32
    max_length: int = 64
    evaluate_every: int = 100


def read_dictionary(path: Path = DICTIONARY) -> list[tuple[tuple[str, ...], ...]]:
    """Words with their variants: for each, those of English and then of every other language."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [tuple(tuple(part.strip() for part in cell.split(",")) for cell in row) for row in rows]


def draw(
    data: TrainingData,
    dictionary: Sequence[Sequence[Sequence[str]]],
    recipe: AlignmentRecipe,
    step: int,
) -> tuple[list[str], list[str]]:
    """Texts of a step for the student and, beside each, the English one for the teacher.

    Args:
        data: its translated requests, its English ones and its tools are drawn from.
        dictionary: as `read_dictionary` gives it.
        recipe: how many of what.
        step: from 0; with the seed it decides all.
    """
    rng = random.Random(recipe.seed * 1_000_003 + step)
    translated = [request for request in data.requests if request.english]
    english = [request for request in data.requests if not request.english]
    pairs = [(one.text, one.english) for one in rng.sample(translated, recipe.requests)]
    for _ in range(recipe.phrases):
        words = rng.sample(dictionary, rng.randint(1, recipe.words))
        language = rng.randrange(1, len(words[0]))
        joint = rng.choice((" ", ", "))
        pairs.append(
            (
                joint.join(rng.choice(word[language]) for word in words),
                joint.join(rng.choice(word[0]) for word in words),
            )
        )
    for place in range(recipe.kept):
        text = rng.choice(data.tools).text if place % 2 else rng.choice(english).text
        pairs.append((text, text))
    return [one for one, _ in pairs], [one for _, one in pairs]


class Alignment:
    """A run of a recipe.

    Args:
        recipe: the settings.
        data: tools and requests, translated ones among them.
        dictionary: as `read_dictionary` gives it.
        development: labelled set that chooses the best checkpoint; never trained on.
        start: folder of the encoder that is teacher and start.
        out: folder of the run.
        device: where to train.
    """

    def __init__(
        self,
        recipe: AlignmentRecipe,
        data: TrainingData,
        dictionary: Sequence[Sequence[Sequence[str]]],
        development: LabelledSet,
        *,
        start: Path,
        out: Path,
        device: torch.device,
    ) -> None:
        torch.manual_seed(recipe.seed)
        self._recipe = recipe
        self._data = data
        self._dictionary = dictionary
        self._development = development
        self._out = out
        self._teacher = TextEncoder(start, device).eval()
        self._student = TextEncoder(start, device)
        self._optimizer = torch.optim.AdamW(
            self._student.transformer.parameters(), lr=0.0, weight_decay=0.0, fused=True
        )
        self._record = Record(asdict(recipe), start.name, data.counts())
        out.mkdir(parents=True, exist_ok=True)

    def run(self) -> Record:
        """Train until the recipe's last step or minute; returns the record, also written."""
        recipe, began = self._recipe, time.monotonic()
        self._evaluate(0, 0.0, 0.0)
        with Progress() as progress:
            bar = progress.add_task("aligning", total=recipe.steps)
            done, step = 0.0, 0
            while done < 1:
                loss = self._update(step, done)
                step += 1
                spent = time.monotonic() - began
                done = max(
                    step / recipe.steps, spent / (60 * recipe.minutes) if recipe.minutes else 0
                )
                progress.update(bar, completed=step, description=f"loss {loss:.4f}")
                if step % recipe.evaluate_every == 0 or done >= 1:
                    self._evaluate(step, loss, spent)
        return self._record

    def _update(self, step: int, done: float) -> float:
        recipe = self._recipe
        rate = recipe.learning_rate * learning_rate_share(done, recipe.warmup)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        texts, english = draw(self._data, self._dictionary, recipe, step)
        with torch.no_grad():
            aims = self._teacher(english, recipe.max_length)
        loss = (1 - (self._student(texts, recipe.max_length) * aims).sum(1)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._student.transformer.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    def _evaluate(self, step: int, loss: float, seconds: float) -> None:
        record, figures = self._record, evaluate(self._student, self._development)
        record.curve.append({"step": step, "seconds": round(seconds), "loss": loss, **figures})
        record.seconds = seconds
        score = figures["all"]["hit@1"] + figures["all"]["recall@10"]
        if score > record.best_score:
            record.best_score, record.best_step = score, step
            self._student.save(self._out / "best")
        self._student.save(self._out / "last")
        record.write(self._out / "record.json")


_DEFAULT = AlignmentRecipe()


def main(
    data: Annotated[Path, typer.Option(help="Folder of sets in the common form to train on.")],
    development: Annotated[
        Path,
        typer.Option(
            help="Folder with judged_tools.jsonl and queries.jsonl; chooses the checkpoint."
        ),
    ],
    start: Annotated[Path, typer.Option(help="Trained encoder, Hugging Face layout.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    seed: Annotated[int, typer.Option(help="Seed of all that is drawn.")] = _DEFAULT.seed,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = _DEFAULT.steps,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    learning_rate: Annotated[float, typer.Option(help="Peak.")] = _DEFAULT.learning_rate,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Align on CUDA where there is one, else on the CPU."""
    torch.set_num_threads(threads)
    record = Alignment(
        AlignmentRecipe(seed=seed, steps=steps, minutes=minutes, learning_rate=learning_rate),
        read_training_data(data, seed=seed),
        read_dictionary(),
        LabelledSet.read(development / "judged_tools.jsonl", development / "queries.jsonl"),
        start=start,
        out=out,
        device=torch.device("cuda" if torch.cuda.is_available() else "cpu"),
    ).run()
    print_json(data=next(point for point in record.curve if point["step"] == record.best_step))


if __name__ == "__main__":
    typer.run(main)
