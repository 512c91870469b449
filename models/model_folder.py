"""Reads the settings of a model folder.

Two layouts are read: ``shortlist.json``, beside the weights this project exports, and the files
that sentence-transformers and transformers write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import ModelError

Pooling = Literal["mean", "cls"]

_DEFAULT_MAX_TOKENS = 512


# Fingerprints of encoders contain the `repr` of this class: another name would change them all.
@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings for the input and output of a model.

    Attributes:
        max_tokens: window in tokens, special tokens included.
        pooling: how token vectors become one vector, if the graph does not do it.
        query_prompt: text put before a query.
        document_prompt: text put before a document.
    """

    max_tokens: int
    pooling: Pooling = "mean"
    query_prompt: str = ""
    document_prompt: str = ""


def read_settings(folder: Path) -> ModelSettings:
    """Read the settings of the model in a folder.

    Args:
        folder: a model folder in either layout.

    Raises:
        ModelError: a settings file is not JSON, or names a pooling that is not implemented.
    """
    own = _read_json(folder / "shortlist.json")
    if own:
        return ModelSettings(max_tokens=int(own["max_tokens"]))
    prompts = _read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    return ModelSettings(
        max_tokens=_max_tokens(folder),
        pooling=_pooling(folder / "1_Pooling" / "config.json"),
        query_prompt=prompts.get("query") or "",
        document_prompt=prompts.get("document") or prompts.get("passage") or "",
    )


def _max_tokens(folder: Path) -> int:
    limit = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    if isinstance(limit, int):
        return limit
    limits = (
        _read_json(folder / "tokenizer_config.json").get("model_max_length"),
        _read_json(folder / "config.json").get("max_position_embeddings"),
    )
    # Tokenizers without a limit of their own publish 1e30 in its place.
    return min(
        [limit for limit in limits if isinstance(limit, int) and limit < 2**20],
        default=_DEFAULT_MAX_TOKENS,
    )


def _pooling(path: Path) -> Pooling:
    config = _read_json(path)
    modes = {key for key, on in config.items() if key.startswith("pooling_mode_") and on is True}
    if modes <= {"pooling_mode_mean_tokens"}:
        return "mean"
    if modes == {"pooling_mode_cls_token"}:
        return "cls"
    raise ModelError(
        f"{path}: pooling {', '.join(sorted(modes))} is not implemented on ONNX; load the model "
        "through 'sentence-transformers:' instead"
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value
