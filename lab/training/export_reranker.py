"""Exports a trained cross-encoder in int8 to a folder, for `reranker` in a configuration.

::

    python -m shortlist.lab.training.export_reranker RUN/best FOLDER --origin "where it is from"
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer

from .bundle import QUANTIZATION, save_tokenizer
from .cross_encoder import CrossEncoder
from .export import export_scorer, quantize
from .program import run_program


def main(
    source: Annotated[Path, typer.Argument(help="Cross-encoder that a training run saved.")],
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    origin: Annotated[str, typer.Option(help="Origin of the weights, for the model card.")],
    max_tokens: Annotated[
        int, typer.Option(help="Most tokens of a pair; the longer text of a longer pair is cut.")
    ] = 96,
    licence: Annotated[str, typer.Option(help="Licence of the weights.")] = "Apache-2.0",
) -> None:
    """Export a cross-encoder as int8 ONNX."""
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
    run_program(main)
