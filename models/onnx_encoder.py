"""An encoder on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoder import Advance
from .hub import ModelFiles
from .onnx_session import OnnxModel
from .tokenization import encodable

_UNIT_OUTPUT = "embedding"
_OUTPUTS = (_UNIT_OUTPUT, "sentence_embedding", "last_hidden_state", "token_embeddings")


class OnnxEncoder(OnnxModel):
    """A sentence encoder on ONNX Runtime.

    Texts run one by one, several at a time: with dynamic int8 the scale of an activation is
    taken over the whole input, so in a batch a text's vector would depend on its neighbours, and
    measured on CPU a batch is no faster than its texts one after the other. A text therefore has
    one vector, whenever and with whatever it is embedded, and there is no padding.

    Thread-safe.

    Args:
        files: the model.
        threads: CPU threads for one call; by default two, or one on a single-core machine.

    Raises:
        ModelError: the files are not an encoder that ONNX Runtime can run.
    """

    in_process = True
    """Whether a call runs in this process and takes about as long as the last one."""

    def __init__(self, files: ModelFiles, *, threads: int | None = None) -> None:
        super().__init__(files, threads=threads)
        self._output = self._session.choose_output(_OUTPUTS)
        self._is_unit = self._output == _UNIT_OUTPUT
        self.dim: int = self._session.width(self._output)

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: Advance | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        prompt = self._settings.query_prompt if query else self._settings.document_prompt
        if len(texts) == 1:
            vectors = self._embed(prompt + texts[0])
            if progress is not None:
                progress(1)
            return vectors
        vectors = np.empty((len(texts), self.dim), np.float32)

        def embed(row: int) -> None:
            vectors[row] = self._embed(prompt + texts[row])[0]

        self._session.for_each(len(texts), embed, progress)
        return vectors

    def _embed(self, text: str) -> NDArray[np.float32]:
        """Vector of one text, of shape (1, dim)."""
        ids: list[int] = self._tokenizer.encode(encodable(text, self._settings.max_tokens)).ids
        [result] = self._session.run([self._output], ids)
        return result if self._is_unit else self._pool(result)

    def _pool(self, result: NDArray[Any]) -> NDArray[np.float32]:
        """Turn token vectors (1, sequence, dim) or one raw vector (1, dim) into a unit vector."""
        pooled = result
        if result.ndim == 3:
            pooled = result[:, 0] if self._settings.pooling == "cls" else result.mean(axis=1)
        unit = pooled / max(float(np.linalg.norm(pooled)), 1e-12)
        return unit.astype(np.float32, copy=False)
