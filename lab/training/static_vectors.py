"""Distils the bundled encoder into tables of token vectors, see `StaticEncoder`.

`python -m shortlist.lab.training.static_vectors --help` lists the options. The folder of a run
has the encoder's vectors and the state after each epoch. The same command continues an interrupted
run.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich import print_json
from tokenizers import Tokenizer

from ...models.hub import WEIGHTS_FOLDER
from ...models.loading import DEFAULT_ENCODER, load_encoder
from ...models.model_folder import read_settings
from ...models.model_protocols import Encoder
from ...models.static_encoder import StaticEncoder, character_grams
from ...models.tokenization import cut_for_tokenizer, load_tokenizer
from .data import TrainingData, read_training_data
from .evaluate import LabelledSet, ranking_figures
from .program import run_program
from .static_tables import GRAM_BUCKETS, Bags, TokenSum, write_tables
from .static_training import (
    BATCH,
    PAIR_RATE,
    Neighbourhoods,
    Pairs,
    QueryTables,
    ToolTables,
    distance,
    found,
    run_epochs,
    shuffled,
)
from .teacher import teacher_vectors

_TOKENIZER = WEIGHTS_FOLDER / DEFAULT_ENCODER
#: A token's initial weight is lower if its share of all tokens is above this (Arora et al., ICLR
#: 2017).
_COMMON = 1e-3


def main(
    data: Annotated[Path, typer.Option(help="Folder of sets in the common form to train on.")],
    development: Annotated[
        Path, typer.Option(help="Folder with judged_tools.jsonl and queries.jsonl to report on.")
    ],
    work: Annotated[Path, typer.Option(help="Folder of the run; an interrupted one continues.")],
    out: Annotated[Path, typer.Option(help="Folder of the tables.")] = WEIGHTS_FOLDER
    / "shortlist-static",
    dim: Annotated[int, typer.Option(help="Dimensions of the vectors.")] = 192,
    query_epochs: Annotated[int, typer.Option(help="Epochs of queries.")] = 8,
    tool_epochs: Annotated[int, typer.Option(help="Epochs of definitions.")] = 15,
    pair_epochs: Annotated[int, typer.Option(help="Epochs of pairs.")] = 6,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = os.cpu_count() or 1,
) -> None:
    """Train on the CPU: about three minutes of encoding and four of training."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    teacher, sets = load_encoder(), _distinct(read_training_data(data, seed=seed), seed)
    cache = work / "teacher"
    tool_vectors = teacher_vectors(teacher, [one.text for one in sets.tools], cache, query=False)
    query_vectors = teacher_vectors(teacher, [one.text for one in sets.requests], cache, query=True)
    projection = principal_directions(np.concatenate([tool_vectors, query_vectors]), dim)
    tools, queries = _projected(tool_vectors, projection), _projected(query_vectors, projection)

    window = read_settings(_TOKENIZER).max_tokens
    tokenizer = load_tokenizer(_TOKENIZER, window)
    request_bags = _tokens(tokenizer, [one.text for one in sets.requests], window)
    tool_bags = _tokens(tokenizer, [one.text for one in sets.tools], window)
    gram_bags = Bags([character_grams(one.text, GRAM_BUCKETS) for one in sets.requests])
    tokens = _start(teacher, tokenizer, request_bags, projection, cache)
    grams = TokenSum(torch.zeros(GRAM_BUCKETS, dim))
    asked = QueryTables(tokens, grams, request_bags, gram_bags)
    run_epochs(
        "queries",
        [asked],
        shuffled(len(queries)),
        lambda rows: distance(asked(rows), queries[rows]),
        epochs=query_epochs,
        steps=len(queries) // BATCH,
        seed=seed,
        out=work,
    )
    shown = ToolTables(TokenSum(tokens.rows.data), tool_bags)
    run_epochs(
        "tools",
        [shown],
        shuffled(len(tools)),
        lambda rows: distance(shown(rows), tools[rows]),
        epochs=tool_epochs,
        steps=len(tools) // BATCH,
        seed=seed,
        out=work,
    )
    near, pairs = Neighbourhoods(sets, tools.numpy()), Pairs(sets, queries, tools)

    def pair_loss(rows: NDArray[np.int64]) -> torch.Tensor:
        documents = pairs.documents(rows)
        vectors, targets = asked(rows), pairs.targets(rows, documents)
        static = shown(documents)
        apart: torch.Tensor = (1 - (static * tools[documents]).sum(1)).mean()
        return apart + found(vectors, tools[documents], targets) + found(vectors, static, targets)

    run_epochs(
        "pairs",
        [asked, shown],
        near.batches,
        pair_loss,
        epochs=pair_epochs,
        steps=near.steps,
        seed=seed,
        out=work,
        rate=PAIR_RATE,
    )
    settings = {
        "teacher": teacher.fingerprint,
        "max_tokens": window,
        "dim": dim,
        "seed": seed,
        "epochs": {"queries": query_epochs, "tools": tool_epochs, "pairs": pair_epochs},
        "data": sets.counts(),
    }
    in_tools = tool_bags.counts(tokenizer.get_vocab_size()) > 0
    write_tables(
        out,
        tokens,
        grams,
        shown.tokens,
        in_tools=in_tools,
        projection=projection,
        settings=settings,
    )
    labelled = LabelledSet.read(development / "judged_tools.jsonl", development / "queries.jsonl")
    print_json(json.dumps(figures(teacher, StaticEncoder(out, _TOKENIZER), labelled)))


def principal_directions(vectors: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """Principal directions of the vectors, without centring, shape (their dim, dim)."""
    values, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    best = directions[:, np.argsort(-values)[:dim]]
    # The sign of an eigenvector is arbitrary, so the largest coordinate is made positive.
    best *= np.sign(best[np.abs(best).argmax(0), np.arange(dim)])
    # With the precision of the file.
    return best.astype(np.float16).astype(np.float32)


def figures(
    teacher: Encoder, student: StaticEncoder, labelled: LabelledSet
) -> dict[str, dict[str, dict[str, float]]]:
    """Ranking figures of static queries, with the teacher's tool vectors and static ones."""
    texts = [tool.text for tool in labelled.tools]
    queries = student.encode(labelled.queries, query=True)
    sides = {
        "encoder tools": student.project(teacher.encode(texts)),
        "static": student.encode(texts),
    }
    return {
        name: ranking_figures(queries @ tools.T, labelled.relevant, labelled.styles)
        for name, tools in sides.items()
    }


def _distinct(data: TrainingData, seed: int) -> TrainingData:
    """The texts without duplicates, in random order."""
    distinct = {request.text: request for request in data.requests}
    texts = sorted(distinct)
    random.Random(seed).shuffle(texts)
    return replace(data, requests=tuple(distinct[text] for text in texts))


def _projected(vectors: NDArray[np.float32], projection: NDArray[np.float32]) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(vectors @ projection))


def _tokens(tokenizer: Tokenizer, texts: Sequence[str], window: int) -> Bags:
    encoded = tokenizer.encode_batch([cut_for_tokenizer(text, window) for text in texts])
    return Bags([np.array(one.ids, np.int64) for one in encoded])


def _start(
    teacher: Encoder,
    tokenizer: Tokenizer,
    bags: Bags,
    projection: NDArray[np.float32],
    cache: Path,
) -> TokenSum:
    """Initial rows: the teacher's vector of each token. Rare tokens have larger weights."""
    size = tokenizer.get_vocab_size()
    names = [(tokenizer.id_to_token(place) or "").removeprefix("##") for place in range(size)]
    vectors = _projected(teacher_vectors(teacher, names, cache, query=True), projection)
    share = bags.counts(size) / bags.counts(size).sum()
    weights = torch.from_numpy((_COMMON / (_COMMON + share)).astype(np.float32))
    return TokenSum(vectors * weights[:, None])


if __name__ == "__main__":
    run_program(main)
