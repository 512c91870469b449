"""Trains the feature reranker on labelled requests: `python -m shortlist.models.training.features`.

Every request is run through the lexical and dense stages, over the whole catalog or a random part
of it, and the network learns to put the labelled tools first among the candidates (softmax over
the list). Requests the encoder itself was trained on would make its scores look better than they
are on new tools, so only requests of held-out servers should be given when it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich.progress import track

from ...builder import Builder
from ...catalog import Catalog, Tool, read_tools
from ...config import Config
from ...errors import EvaluationError
from ...retrieval.features import FEATURES, FeatureExtractor, Network
from ...retrieval.index import Index
from ...retrieval.query import Query
from ...retrieval.run import Run

_DEPTH = 100
_CANDIDATES = 40
_HIDDEN = 16


@dataclass(frozen=True, slots=True)
class Lists:
    """Candidate lists, padded to one length.

    Args:
        features: shape (q, c, f).
        relevant: shape (q, c).
        present: whether a place holds a candidate that counts, shape (q, c).
    """

    features: NDArray[np.float32]
    relevant: NDArray[np.bool_]
    present: NDArray[np.bool_]


def read_set(folder: Path) -> tuple[list[Tool], list[tuple[str, list[str]]]]:
    """Tools and (request, relevant ids) of a data set; ids get the set's name in front."""
    tools = [
        Tool.from_dict({**tool.to_dict(), "id": f"{folder.name}:{tool.id}"[:512]})
        for tool in read_tools(folder / "tools.jsonl", strict=False).tools
    ]
    requests = []
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["relevant"]:
                requests.append((row["query"], [f"{folder.name}:{one}" for one in row["relevant"]]))
    return tools, requests


def candidate_lists(
    index: Index, requests: Sequence[tuple[str, list[str]]], seed: int
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_]]]:
    """For each request the features, labels and use of its candidates."""
    if index.encoder is None or index.vectors is None:
        raise EvaluationError("the feature reranker is trained with a dense stage")
    extractor = FeatureExtractor(index.tools, index.vectors.values, index.lexical)
    rng = np.random.default_rng(seed)
    total = len(index.tools)
    vectors = index.encoder.encode([text for text, _ in requests], query=True)
    for (text, ids), vector in zip(track(requests, "lists"), vectors, strict=True):
        relevant = [index.rows[one] for one in ids if one in index.rows]
        mask = None
        if rng.random() < 0.6:
            mask = rng.random(total) < np.exp(rng.uniform(np.log(100), np.log(total))) / total
            servers = {index.tools[row].server for row in relevant}
            mask |= np.array([tool.server in servers for tool in index.tools])
            mask[relevant] = True
        run = Run(Query(text, mask, vector), _CANDIDATES, index.retrievers, {})
        rows = np.unique(
            np.concatenate([run.retrieve(stage, _DEPTH).rows for stage in index.retrievers])
        )
        labels = np.isin(rows, relevant)
        names = {index.tools[row].name for row in relevant}
        twin = np.array([index.tools[row].name in names for row in rows.tolist()]) & ~labels
        if labels.any():
            yield extractor(run, rows), labels, ~twin


def collect(index: Index, requests: Sequence[tuple[str, list[str]]], seed: int) -> Lists:
    """All candidate lists as padded arrays."""
    lists = list(candidate_lists(index, requests, seed))
    longest = max(len(labels) for _, labels, _ in lists)
    features = np.zeros((len(lists), longest, len(FEATURES)), np.float32)
    relevant = np.zeros((len(lists), longest), np.bool_)
    present = np.zeros((len(lists), longest), np.bool_)
    for place, (values, labels, use) in enumerate(lists):
        features[place, : len(labels)] = values
        relevant[place, : len(labels)] = labels
        present[place, : len(labels)] = use
    return Lists(features, relevant, present)


def fit(lists: Lists, *, steps: int = 1_500, seed: int = 0) -> Network:
    """A network that puts the relevant candidates first."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    known = lists.features[lists.present]
    mean, scale = known.mean(0), known.std(0) + 1e-6
    inputs = torch.from_numpy((lists.features - mean) / scale)
    relevant, present = torch.from_numpy(lists.relevant), torch.from_numpy(lists.present)
    hidden = torch.nn.Linear(len(FEATURES), _HIDDEN)
    out = torch.nn.Linear(_HIDDEN, 1, bias=False)
    direct = torch.nn.Linear(len(FEATURES), 1, bias=False)
    parameters = [*hidden.parameters(), *out.parameters(), *direct.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in track(range(steps), "fit"):
        batch = torch.from_numpy(rng.integers(0, len(inputs), 256))
        values = inputs[batch]
        scores = (out(torch.relu(hidden(values))) + direct(values)).squeeze(-1)
        scores = scores.masked_fill(~present[batch], -1e4)
        chance = torch.log_softmax(scores, 1)
        wanted = relevant[batch].float()
        loss = -(chance * wanted).sum(1).div(wanted.sum(1)).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
    return Network(
        mean=mean,
        scale=scale,
        hidden=hidden.weight.detach().numpy().T,
        hidden_bias=hidden.bias.detach().numpy(),
        out=out.weight.detach().numpy()[0],
        direct=direct.weight.detach().numpy()[0],
    )


def main(
    data: Annotated[list[Path], typer.Option(help="Folder with tools.jsonl and queries.jsonl.")],
    out: Annotated[Path, typer.Option(help="File to write the network to.")],
    encoder: Annotated[str, typer.Option(help="Encoder of the dense stage.")] = "bundled",
    limit: Annotated[int, typer.Option(help="Requests a set contributes at most.")] = 4_000,
    seed: Annotated[int, typer.Option(help="Of the parts of the catalog and the fit.")] = 0,
) -> None:
    """Train the feature reranker."""
    tools: list[Tool] = []
    requests: list[tuple[str, list[str]]] = []
    rng = np.random.default_rng(seed)
    for folder in data:
        more, asked = read_set(folder)
        tools.extend(more)
        chosen = rng.permutation(len(asked))[:limit]
        requests.extend(asked[place] for place in chosen.tolist())
    index = Builder(Config.make(tiers=["hybrid"], encoder=encoder)).build(Catalog(tools))
    network = fit(collect(index, requests, seed), seed=seed)
    out.write_text(json.dumps(network.to_dict()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
