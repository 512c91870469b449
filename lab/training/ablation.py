"""Ablation: short training runs from the same start, each with one part of the recipe changed.

::

    python -m shortlist.lab.training.ablation --data DATA/train --evaluation DATA/eval \
        --start STOCK --out runs/ablation --seed 0 --seed 1

The figures are of the encoder alone, in bfloat16, without fusion. The record is
`lab/results/ablation.json`; an interrupted run continues.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np
import torch
import typer
from rich import print as show

from ...errors import EvaluationError
from ...evals import xlam_protocol as xlam
from ...evals.report import Cell, Table
from ...evals.xlam_rows import stream_rows
from ..publishing.record import RESULTS, Record, provenance, write_record
from .batches import Mixture
from .data import TrainingData, TrainingQuery, hold_out, read_tool, read_training_data
from .encoder_training import Training, near_twins
from .evaluate import LabelledSet, evaluate
from .negatives import TrainingTwins
from .program import run_program
from .recipe import Recipe
from .text_encoder import TextEncoder

#: Evaluation set to the figures shown in the table.
SHOWN = {
    "mcp_dev judged": ("hit@1", "recall@10"),
    "mcp_dev": ("hit@1", "recall@10"),
    "livemcpbench": ("hit@1", "recall@10"),
    "xlam": ("hit@1", "hit@3"),
    "unseen servers": ("hit@1", "recall@10"),
    "seen": ("hit@1", "recall@10"),
}
_SEEN = 500
"""Requests trained on that are scored as well, among the tools of their servers."""


def _all(_: TrainingQuery) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Variant:
    """A run that differs from the first one in one thing.

    Args:
        mixture: settings of `Mixture` that differ.
        recipe: settings of `Recipe` that differ.
        keep: which training requests are used.
        written: whether the requests written for this project are used.
        twins: whether near twins are excluded from the negatives.
        judged: whether tools that were judged to serve a request too count as relevant.
    """

    mixture: dict[str, Any] = field(default_factory=dict)
    recipe: dict[str, Any] = field(default_factory=dict)
    keep: Callable[[TrainingQuery], bool] = _all
    written: bool = True
    twins: bool = True
    judged: bool = True


#: The others are compared with the first one. It does not mine, which would take longer than the
#: run.
VARIANTS: dict[str, Variant] = {
    "all but mining": Variant(),
    "and mined negatives": Variant(recipe={"mine_after": (0,)}),
    "without siblings in a batch": Variant(mixture={"sibling_group": 0}),
    "without the filter for near twins": Variant(twins=False),
    "without judgements": Variant(judged=False),
    "without self-supervision": Variant(mixture={"self_supervised": 0.0}),
    "without joined requests": Variant(mixture={"joined": 0.0}),
    "without this project's requests": Variant(written=False),
    "without translations": Variant(keep=lambda request: not request.english),
    "translations only with their tool": Variant(mixture={"translated": 0.0}),
    "without requests for several tools": Variant(keep=lambda request: len(request.relevant) == 1),
}


def evaluation_sets(folder: Path) -> dict[str, LabelledSet]:
    """The evaluation sets below a folder, by the names of `SHOWN`."""
    dev, live = folder / "mcp_dev", folder / "livemcpbench"
    functions = xlam.prepare(stream_rows(folder / "xlam" / "xlam_first_1000.jsonl"))
    place = {tool.id: index for index, tool in enumerate(functions.catalog)}
    (whole,) = (pool for pool in functions.pools if pool.name == xlam.WHOLE_CATALOG)
    return {
        "mcp_dev judged": LabelledSet.read(dev / "judged_tools.jsonl", dev / "queries.jsonl"),
        "mcp_dev": LabelledSet.read(dev / "tools.jsonl", dev / "queries.jsonl"),
        "livemcpbench": LabelledSet.read(live / "tools.jsonl", live / "queries.jsonl"),
        "xlam": LabelledSet(
            tuple(read_tool(tool.to_dict(), "xlam") for tool in functions.catalog),
            tuple(query.text for query in whole.queries),
            tuple(frozenset(place[name] for name in query.relevant) for query in whole.queries),
            ("",) * len(whole.queries),
        ),
    }


def run_variant(
    variant: Variant,
    recipe: Recipe,
    data: TrainingData,
    twins: TrainingTwins,
    development: LabelledSet,
    *,
    start: Path,
    out: Path,
    device: torch.device,
) -> TextEncoder:
    """Train a variant and return the running average of its weights after the last step."""
    changed = replace(recipe, **variant.recipe, mixture=replace(recipe.mixture, **variant.mixture))
    requests = tuple(filter(variant.keep, data.requests))
    if not variant.judged:
        requests = tuple(replace(request, also=()) for request in requests)
    kept = replace(data, requests=requests)
    Training(changed, kept, development, twins, start=start, out=out, device=device).run()
    return TextEncoder(out / "best", device)


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Means over seeds, and half their range if there are several."""
    columns = ("variant", *(f"{name}: {' / '.join(shown)}" for name, shown in SHOWN.items()))
    cells: list[tuple[Cell, ...]] = []
    for variant in dict.fromkeys(row["variant"] for row in rows):
        runs = [row["sets"] for row in rows if row["variant"] == variant]
        cells.append((variant, *(_cell(runs, name, shown) for name, shown in SHOWN.items())))
    return Table(columns, tuple(cells))


def _cell(runs: Sequence[dict[str, Any]], name: str, shown: Sequence[str]) -> str:
    found = [[run[name]["all"][figure] for run in runs] for figure in shown]
    text = " / ".join(f"{mean(values):.1f}" for values in found)
    if len(runs) > 1:
        spread = " / ".join(f"{(max(values) - min(values)) / 2:.1f}" for values in found)
        text += f" (± {spread})"
    return text


def main(
    data: Annotated[Path, typer.Option(help="Folder of sets in the common form to train on.")],
    evaluation: Annotated[Path, typer.Option(help="Folder of the evaluation sets.")],
    start: Annotated[Path, typer.Option(help="Encoder to start from, Hugging Face layout.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs.")],
    seed: Annotated[list[int], typer.Option(help="Of a run of every variant; repeatable.")],
    steps: Annotated[int, typer.Option(help="Optimiser steps of each run.")] = 50,
    queries: Annotated[int, typer.Option(help="Requests in a batch.")] = 48,
    unseen: Annotated[float, typer.Option(help="Share of servers held out.")] = 0.08,
    only: Annotated[list[str] | None, typer.Option(help="Variants to run; repeatable.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the record.")] = RESULTS,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Run every variant with every seed and record how it ranks."""
    torch.set_num_threads(threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sets = evaluation_sets(evaluation)
    recipe = Recipe(
        steps=steps,
        evaluate_every=steps,
        averaging=0.9,
        mine_after=(),
        mixture=Mixture(queries=queries),
    )
    settings = {"steps": steps, "queries": queries, "unseen": unseen}
    for one in seed:
        folders = {name: out / f"{name.replace(' ', '-')}-{one}" for name in only or VARIANTS}
        pending = [name for name in folders if not (folders[name] / "figures.json").exists()]
        if not pending:
            continue
        everything = read_training_data(data, seed=one)
        seen, held_out = hold_out(everything, unseen, by="server", seed=0)
        twins = near_twins(everything, start, out, device)
        every = max(1, len(seen.requests) // _SEEN)
        parts = {
            "unseen servers": LabelledSet.of(held_out),
            "seen": LabelledSet.of(replace(seen, requests=seen.requests[::every])),
        }
        for name in pending:
            variant, trained = VARIANTS[name], seen
            if not variant.written:
                published = read_training_data(data, written=None, caps={}).requests
                texts = {(request.source, request.text) for request in published}
                kept = tuple(
                    replace(request, also=())
                    for request in seen.requests
                    if (request.source, request.text) in texts
                )
                trained = replace(seen, requests=kept)
            none = np.zeros((len(everything.tools), 1), np.float32)
            encoder = run_variant(
                variant,
                replace(recipe, seed=one),
                trained,
                twins if variant.twins else TrainingTwins(everything.tools, none),
                sets["mcp_dev judged"],
                start=start,
                out=folders[name],
                device=device,
            )
            figures = {label: evaluate(encoder, part) for label, part in (sets | parts).items()}
            row = {"variant": name, "seed": one, **settings, "sets": figures}
            (folders[name] / "figures.json").write_text(json.dumps(row), encoding="utf-8")
    found = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*/figures.json")]
    if other := [row for row in found if any(row.get(key) != settings[key] for key in settings)]:
        raise EvaluationError(
            f"{out}: holds runs with other settings ({other[0]['variant']!r}); choose another --out"
        )
    order = list(VARIANTS)
    rows = sorted(found, key=lambda row: (order.index(row["variant"]), row["seed"]))
    title = f"ablation, {steps} steps of {queries} requests"
    command = ["python", "-m", "shortlist.lab.training.ablation", *sys.argv[1:]]
    result = {**settings, "rows": rows}
    record = Record("ablation", title, table(rows), result, provenance(command))
    show(write_record(record, results))


if __name__ == "__main__":
    run_program(main)
