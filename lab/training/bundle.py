r"""Makes a bundled encoder from a trained one: exports, quantises, measures.

The command for the bundled encoder::

    python -m shortlist.lab.training.bundle RUN/best --name shortlist-embed --max-tokens 128 \
        --origin "trained from all-MiniLM-L6-v2 by shortlist.lab.training.encoder" --task TASK

TASK is a folder with `queries.jsonl` and `judged_tools.jsonl`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer
from tokenizers import Tokenizer
from transformers import AutoModel

from ...catalog.tool_document import embedding_text
from ...demo import load_catalog
from ...models.hub import WEIGHTS_FOLDER, ModelFiles
from ...models.onnx_models import OnnxEncoder
from .data import WRITTEN, read_rows
from .evaluate import LabelledSet
from .export import export_text, quantize
from .program import run_program
from .quantization import measure_loss
from .single import SingleText
from .smoothing import smooth

#: Approximate number of written requests for the ranges of activations.
_CALIBRATION = 500

QUANTIZATION = "dynamic int8, signed per-channel weights, unsigned per-tensor activations, smoothed"


def save_tokenizer(source: Path, target: Path) -> None:
    """Write the tokenizer of a trained model, without padding and truncation, into a new folder."""
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)


def calibration_texts() -> list[str]:
    """Texts for the ranges of activations: written requests and the demo's tools."""
    rows = [row for path in sorted(WRITTEN.glob("tools-*.jsonl")) for row in read_rows(path)]
    requests = [row["query"] for row in rows[:: max(len(rows) // _CALIBRATION, 1)]]
    return [*requests, *(embedding_text(tool) for tool in load_catalog())]


def main(
    source: Annotated[Path, typer.Argument(help="Encoder, Hugging Face layout.")],
    name: Annotated[str, typer.Option(help="Name of the folder under models/weights.")],
    origin: Annotated[str, typer.Option(help="Origin of the weights, for the model card.")],
    max_tokens: Annotated[int, typer.Option(help="Most tokens of a text.")] = 128,
    licence: Annotated[str, typer.Option(help="Licence of the weights.")] = "Apache-2.0",
    task: Annotated[Path | None, typer.Option(help="Data to measure the loss on.")] = None,
) -> None:
    """Export an encoder as int8 ONNX into models/weights, and measure the quantisation loss."""
    target = WEIGHTS_FOLDER / name
    save_tokenizer(source, target)
    transformer = AutoModel.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32
    )
    settings = {
        "max_tokens": max_tokens,
        "pooling": "mean over the tokens, then L2, in the graph",
        "dim": transformer.config.hidden_size,
        "quantization": QUANTIZATION,
        "source": origin,
        "licence": licence,
    }
    (target / "shortlist.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / "model.onnx"
        text = SingleText(transformer)
        tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
        smooth(text, tokenizer, calibration_texts(), max_length=max_tokens)
        export_text(text, exact)
        quantize(exact, target / "model.onnx")
        if task is not None:
            loss = measure_loss(
                OnnxEncoder(ModelFiles(f"{name} fp32", target, exact)),
                OnnxEncoder(ModelFiles(name, target, target / "model.onnx")),
                LabelledSet.read(task / "judged_tools.jsonl", task / "queries.jsonl"),
            )
            (target / "quantization_loss.json").write_text(
                json.dumps(loss, indent=2) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    run_program(main)
