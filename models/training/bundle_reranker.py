r"""Make a bundled reranker of a trained cross-encoder: export, quantise.

::

    python -m shortlist.models.training.bundle_reranker RUN/best --name shortlist-rerank \\
        --origin "trained from shortlist-embed by shortlist.models.training.reranker"
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer

from ..hub import WEIGHTS
from .bundle import QUANTIZATION, save_tokenizer
from .cross import CrossEncoder
from .export import export_scorer, quantize


def main(
    source: Annotated[Path, typer.Argument(help="Cross-encoder that a run kept.")],
    name: Annotated[str, typer.Option(help="Of the folder under models/weights.")],
    origin: Annotated[str, typer.Option(help="Where the weights come from.")],
    max_tokens: Annotated[
        int, typer.Option(help="Window; of a longer pair the longer text is cut.")
    ] = 96,
    licence: Annotated[str, typer.Option(help="Of the weights.")] = "Apache-2.0",
    target: Annotated[Path, typer.Option(help="Where the folder is made.")] = WEIGHTS,
) -> None:
    """Export a cross-encoder as int8 ONNX."""
    folder = target / name
    save_tokenizer(source, folder)
    model = CrossEncoder(source, torch.device("cpu"))
    settings = {
        "max_tokens": max_tokens,
        "pooling": "mean over the attention mask and a linear head, in the graph",
        "layers": model.transformer.config.num_hidden_layers,
        "quantization": QUANTIZATION,
        "source": origin,
        "licence": licence,
    }
    (folder / "shortlist.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / "model.onnx"
        export_scorer(model.transformer, model.head, exact)
        quantize(exact, folder / "model.onnx")


if __name__ == "__main__":
    typer.run(main)
