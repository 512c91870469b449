"""Fine-tunes a sentence encoder, so that a request and its tools get similar vectors.

`python -m shortlist.lab.training.encoder --help` lists the options. A run writes into its
folder: `best/` (Hugging Face layout), `record.json` (configuration, data counts, curve) and
`state.pt`, from which the same command continues an interrupted run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich import print_json

from .batches import Mixture
from .data import hold_out, read_training_data
from .encoder_training import Training, near_twins
from .evaluate import LabelledSet, evaluate
from .program import run_program
from .recipe import Recipe
from .text_encoder import TextEncoder

_DEFAULT = Recipe()


def main(
    data: Annotated[Path, typer.Option(help="Folder of sets in the common form to train on.")],
    development: Annotated[
        Path,
        typer.Option(
            help="Folder with judged_tools.jsonl and queries.jsonl, to choose the checkpoint."
        ),
    ],
    start: Annotated[Path, typer.Option(help="Encoder to start from, Hugging Face layout.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one continues.")],
    stock: Annotated[
        Path | None,
        typer.Option(help="Untrained encoder to find near twins with; by default the start."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = _DEFAULT.seed,
    steps: Annotated[int, typer.Option(help="Optimiser steps.")] = _DEFAULT.steps,
    minutes: Annotated[float | None, typer.Option(help="Wall-clock limit.")] = None,
    queries: Annotated[int, typer.Option(help="Requests in a batch.")] = _DEFAULT.mixture.queries,
    learning_rate: Annotated[
        float, typer.Option(help="Peak of the rate.")
    ] = _DEFAULT.learning_rate,
    mine_after: Annotated[
        list[int], typer.Option(help="Step at which to mine hard negatives; repeatable.")
    ] = list(_DEFAULT.mine_after),  # noqa: B006 - never changed
    unseen: Annotated[
        float,
        typer.Option(help="Share of servers whose requests are held out and reported at the end."),
    ] = 0.0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Train on CUDA if there is one, otherwise on the CPU, with the same recipe."""
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sets, held_out = hold_out(read_training_data(data, seed=seed), unseen, by="server", seed=seed)
    training = Training(
        Recipe(
            seed=seed,
            steps=steps,
            minutes=minutes,
            learning_rate=learning_rate,
            mine_after=tuple(mine_after),
            mixture=Mixture(queries=queries),
        ),
        sets,
        LabelledSet.read(development / "judged_tools.jsonl", development / "queries.jsonl"),
        near_twins(sets, stock or start, out, device),
        start=start,
        out=out,
        device=device,
    )
    record = training.run()
    if held_out.requests:
        best_encoder = TextEncoder(out / "best", device)
        record.unseen = evaluate(best_encoder, LabelledSet.of(held_out))
        record.write(out / "record.json")
    best = next(point for point in record.curve if point["step"] == record.best_step)
    print_json(data={**best, "unseen": record.unseen})


if __name__ == "__main__":
    run_program(main)
