from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shortlist.lab.training.data import TrainingData, TrainingQuery, TrainingTool
from shortlist.lab.training.static_tables import Bags, TokenSum, write_tables
from shortlist.lab.training.static_training import (
    Neighbourhoods,
    Pairs,
    ToolTables,
    distance,
    run_epochs,
)
from shortlist.lab.training.static_vectors import principal_directions
from shortlist.lab.training.teacher import teacher_vectors
from shortlist.models import DEFAULT_ENCODER
from shortlist.models.hub import WEIGHTS_FOLDER
from shortlist.models.static_encoder import StaticEncoder, character_grams

DIM = 8
TOKENIZER = WEIGHTS_FOLDER / DEFAULT_ENCODER
TOKENS = 30_522


def units(count: int, dim: int = DIM, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, dim))


def data(tools: int = 60) -> TrainingData:
    return TrainingData(
        tuple(TrainingTool(f"s:{n}", "s", "server", f"tool {n}", "") for n in range(tools)),
        tuple(
            TrainingQuery(f"request {n}", (n % tools,), "", "s", also=((n + 1) % tools,))
            for n in range(600)
        ),
    )


class Counting:
    """An encoder that counts its texts."""

    name, dim, fingerprint = "counting", DIM, "counting"

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, texts: list[str], **_: object) -> NDArray[np.float32]:
        self.encoded += len(texts)
        return units(len(texts)).numpy()


def test_the_teacher_encodes_each_text_once(tmp_path: Path) -> None:
    teacher, texts = Counting(), [str(n) for n in range(3_000)]
    first = teacher_vectors(teacher, texts, tmp_path, query=True)
    [kept, _] = sorted(tmp_path.iterdir())
    kept.unlink()
    again = teacher_vectors(teacher, texts, tmp_path, query=True)
    assert 3_000 < teacher.encoded < 6_000
    assert np.array_equal(first, again)


def test_the_distance_is_least_where_vectors_agree() -> None:
    teacher = units(20)
    assert distance(teacher, teacher) < distance(units(20, seed=1), teacher)


def test_an_interrupted_run_continues_to_the_same_tables(tmp_path: Path) -> None:
    bags = Bags([np.array([n % 5, 5 + n % 3]) for n in range(40)])
    wanted = units(40)

    def trained(out: Path, killed_at: int) -> NDArray[np.float32]:
        shown = ToolTables(TokenSum(torch.ones(8, DIM)), bags)
        drawn: list[int] = []

        def batches(rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
            drawn.append(1)
            if len(drawn) == killed_at:
                raise KeyboardInterrupt
            yield rng.permutation(40)

        def step(rows: NDArray[np.int64]) -> torch.Tensor:
            return distance(shown(rows), wanted[rows])

        run_epochs("tools", [shown], batches, step, epochs=4, steps=1, seed=3, out=out)
        return shown.tokens.table()

    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = trained(tmp_path / "whole", 9)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", 3)
    assert np.array_equal(whole, trained(tmp_path / "killed", 9))
    assert not np.array_equal(whole, np.ones((8, DIM), np.float32))


def test_half_a_batch_are_neighbours() -> None:
    sets, vectors = data(), units(60).numpy()
    batches = list(Neighbourhoods(sets, vectors).batches(np.random.default_rng(0)))
    assert len(batches) == Neighbourhoods(sets, vectors).steps == 2
    for rows in batches:
        assert len(np.unique(rows)) == len(rows) > 256


def test_a_target_prefers_every_tool_that_serves_the_request() -> None:
    sets = data()
    pairs = Pairs(sets, units(600), units(60, seed=1))
    rows = np.arange(50)
    documents = pairs.documents(rows)
    targets = pairs.targets(rows, documents)
    assert torch.allclose(targets.sum(1), torch.ones(50), atol=1e-5)
    for row in range(49):
        assert (targets[row, [row, row + 1]] >= 0.45 / 2).all()


def test_principal_directions_keep_most_of_a_product() -> None:
    flat = units(200).numpy() @ np.linalg.qr(np.random.default_rng(0).normal(size=(32, DIM)))[0].T
    kept = flat.astype(np.float32) @ principal_directions(flat.astype(np.float32), DIM)
    assert np.allclose(kept @ kept.T, flat @ flat.T, atol=1e-2)


def test_the_encoder_reads_what_was_written(tmp_path: Path) -> None:
    query, grams, tool = (TokenSum(units(n, seed=n)) for n in (TOKENS, 64, TOKENS))
    in_tools = np.zeros(TOKENS, np.bool_)
    in_tools[::2] = True
    projection = np.eye(DIM, dtype=np.float32)
    settings = {"teacher": "t", "max_tokens": 32}
    write_tables(
        tmp_path, query, grams, tool, in_tools=in_tools, projection=projection, settings=settings
    )
    encoder = StaticEncoder(tmp_path, TOKENIZER)
    ids = encoder._tokenizer.encode("list the invoices").ids
    asked = query.table()[ids].sum(0) + grams.table()[character_grams("list the invoices", 64)].sum(
        0
    )
    shown = np.where(in_tools[ids, None], tool.table()[ids], query.table()[ids]).sum(0)
    for vector, expected in (
        (encoder.encode(["list the invoices"], query=True)[0], asked),
        (encoder.encode(["list the invoices"])[0], shown),
    ):
        assert vector @ expected / np.linalg.norm(expected) == pytest.approx(1, abs=1e-3)
