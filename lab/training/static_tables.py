"""Tables of static vectors during training, and their file format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

#: Number of hash buckets for character 4-grams of queries.
GRAM_BUCKETS = 16_384


class Bags:
    """Row numbers of a table for each of n texts, in one array.

    Args:
        texts: an array of row numbers for each text.
    """

    def __init__(self, texts: Sequence[NDArray[np.int64]]) -> None:
        lengths = np.array([len(text) for text in texts], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        self._places = np.concatenate([*texts, np.empty(0, np.int64)])

    def take(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Row numbers of some texts, and the start of each text among them."""
        starts, stops = self._starts[rows], self._starts[rows + 1]
        parts = [self._places[a:b] for a, b in zip(starts, stops, strict=True)]
        offsets = np.concatenate([[0], np.cumsum(stops - starts)[:-1]])
        return torch.from_numpy(np.concatenate(parts)), torch.from_numpy(offsets)

    def counts(self, size: int) -> NDArray[np.int64]:
        """How often each of `size` rows occurs."""
        return np.bincount(self._places, minlength=size)


class TokenSum(nn.Module):
    """Sum of a table's rows.

    Args:
        rows: initial rows, shape (n, dim).
    """

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(rows.clone())

    def forward(self, places: Tensor, offsets: Tensor) -> Tensor:
        """Sums of texts given as `Bags.take` does, shape (texts, dim)."""
        sums: Tensor = nn.functional.embedding_bag(places, self.rows, offsets, mode="sum")
        return sums

    def table(self) -> NDArray[np.float32]:
        """The present rows."""
        rows: NDArray[np.float32] = self.rows.detach().numpy()
        return rows


def write_tables(
    folder: Path,
    query: TokenSum,
    grams: TokenSum,
    tool: TokenSum,
    *,
    in_tools: NDArray[np.bool_],
    projection: NDArray[np.float32],
    settings: Mapping[str, Any],
) -> None:
    """Write what `StaticEncoder` reads: int8 rows with one scale each.

    Args:
        folder: folder of the tables.
        query: tokens of queries.
        grams: character 4-grams of queries.
        tool: tokens of definitions.
        in_tools: which tokens occur in definitions. The others use the table of queries.
        projection: projection from the teacher's vector space, shape (its dim, dim).
        settings: settings for static.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    places = np.full(len(in_tools), -1, np.int16)
    places[in_tools] = np.arange(in_tools.sum(), dtype=np.int16)
    np.save(folder / "tool_places.npy", places)
    np.save(folder / "projection.npy", projection.astype(np.float16))
    tables = {"query": query.table(), "gram": grams.table(), "tool": tool.table()[in_tools]}
    for name, table in tables.items():
        scales = np.maximum(np.abs(table).max(axis=1) / 127, 1e-7).astype(np.float16)
        rounded = np.rint(table / scales.astype(np.float32)[:, None]).clip(-127, 127)
        np.save(folder / f"{name}_rows.npy", rounded.astype(np.int8))
        np.save(folder / f"{name}_scales.npy", scales)
    text = json.dumps(dict(settings), indent=2) + "\n"
    (folder / "static.json").write_text(text, encoding="utf-8")
