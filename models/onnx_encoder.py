"""An encoder on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .hub import ModelFiles
from .layout import read_settings
from .session import fingerprint, input_types, open_session
from .tokenization import encodable, length_sorted_batches, load_tokenizer, pad

_PADDED_TOKENS = 2048
_TEXTS_AT_ONCE = 1024
_POOLED_OUTPUTS = ("embedding", "sentence_embedding")
_TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")


class OnnxEncoder:
    """A sentence encoder on ONNX Runtime.

    Thread-safe. One short text takes the shortest way through: no padding, no mask to build, no
    copy of the result.

    Args:
        files: the model.
        threads: CPU threads for one call; by default two, or one on a single-core machine.

    Raises:
        ModelError: the files are not an encoder that ONNX Runtime can run.
    """

    def __init__(self, files: ModelFiles, *, threads: int | None = None) -> None:
        self.name = files.name
        self._files = files
        self._settings = read_settings(files.folder)
        window = self._settings.max_tokens
        self._tokenizer = load_tokenizer(files.folder, window)
        self._pad_id = _pad_id(self._tokenizer)
        self._session = open_session(files.onnx, threads)
        self._types = input_types(self._session)
        self._output, self._pooled = _choose_output(self._session, files)
        self.dim = int(self._output.shape[-1])
        self._outputs = [self._output.name]
        self._ids_type = self._types["input_ids"]
        # The rest of the inputs of one unpadded text do not depend on it beyond its length.
        self._constants = {
            name: np.full((1, window), int(name == "attention_mask"), dtype)
            for name, dtype in self._types.items()
            if name != "input_ids"
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, the tokenizer and the settings."""
        return fingerprint(
            (self._files.onnx, self._files.folder / "tokenizer.json"), repr(self._settings)
        )

    def encode(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        settings = self._settings
        prompt = settings.query_prompt if query else settings.document_prompt
        if len(texts) == 1:
            vectors = self._encode_one(prompt + texts[0])
            if progress is not None:
                progress(1)
            return vectors
        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            some = [prompt + text for text in texts[start : start + _TEXTS_AT_ONCE]]
            self._encode_some(some, vectors[start : start + len(some)], progress)
        return vectors

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        ids = self._tokenizer.encode(encodable(text, self._settings.max_tokens)).ids
        feed: dict[str, Any] = {"input_ids": np.array([ids], self._ids_type)}
        for name, constant in self._constants.items():
            feed[name] = constant[:, : len(ids)]
        result = self._session.run(self._outputs, feed)[0]
        return result if self._pooled else self._pool(result, feed["attention_mask"])

    def _encode_some(
        self,
        texts: list[str],
        vectors: NDArray[np.float32],
        progress: Callable[[int], None] | None,
    ) -> None:
        window = self._settings.max_tokens
        encodings = self._tokenizer.encode_batch_fast([encodable(text, window) for text in texts])
        rows = [encoding.ids for encoding in encodings]
        for batch in length_sorted_batches([len(row) for row in rows], _PADDED_TOKENS):
            vectors[batch] = self._run([rows[i] for i in batch])
            if progress is not None:
                progress(len(batch))

    def _run(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        ids = pad(rows, self._pad_id)
        lengths = np.fromiter(map(len, rows), np.intp, len(rows))
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        tensors = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
        }
        feed = {name: tensors[name].astype(dtype) for name, dtype in self._types.items()}
        result = self._session.run(self._outputs, feed)[0]
        return result if self._pooled else self._pool(result, mask)

    def _pool(self, tokens: NDArray[np.float32], mask: NDArray[Any]) -> NDArray[np.float32]:
        """Turn token vectors (batch, sequence, dim) into unit vectors (batch, dim)."""
        if tokens.ndim == 2:
            pooled = tokens
        elif self._settings.pooling == "cls":
            pooled = tokens[:, 0]
        else:
            weights = mask.astype(np.float32)
            pooled = np.einsum("bsd,bs->bd", tokens, weights) / weights.sum(1, keepdims=True)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        unit: NDArray[np.float32] = (pooled / np.maximum(norms, 1e-12)).astype(np.float32)
        return unit


def _pad_id(tokenizer: Any) -> int:
    for token in ("[PAD]", "<pad>"):
        known: int | None = tokenizer.token_to_id(token)
        if known is not None:
            return known
    return 0


def _choose_output(session: Any, files: ModelFiles) -> tuple[Any, bool]:
    """The output to read, and whether it is a unit vector already."""
    outputs = {node.name: node for node in session.get_outputs()}
    for name in (*_POOLED_OUTPUTS, *_TOKEN_OUTPUTS):
        if name in outputs:
            return outputs[name], name == _POOLED_OUTPUTS[0]
    raise ModelError(
        f"{files.onnx}: outputs {sorted(outputs)} are not those of an encoder "
        f"(one of {(*_POOLED_OUTPUTS, *_TOKEN_OUTPUTS)})"
    )
