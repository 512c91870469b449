"""The encoder alone: ONNX Runtime sessions without the code of shortlist."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ...models import DEFAULT_ENCODER
from ...models.hub import find_model_files
from ...models.model_folder import read_settings
from ...models.tokenization import load_tokenizer

Feed = dict[str, NDArray[Any]]

BATCH_TOKENS = 2048
"""Tokens of one batch, padding included. From 512 to 16,384 the speed differs by a few per cent."""

_INTEGERS: dict[str, type[np.signedinteger[Any]]] = {
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}


class BareEncoder:
    """The engine's encoder as a plain ONNX Runtime session with the same options.

    Args:
        spec: a bundled encoder, a folder, or a hub name.
        threads: CPU threads of one call.

    Raises:
        ModelError: there is no such ONNX model.
    """

    def __init__(self, spec: str, threads: int) -> None:
        files = find_model_files(DEFAULT_ENCODER if spec == "bundled" else spec)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.x64quantprecision", "1")
        providers = ["CPUExecutionProvider"]
        self._session = ort.InferenceSession(str(files.onnx), options, providers=providers)
        # A graph for one text per call has a first axis of one.
        self._batches = self._session.get_inputs()[0].shape[0] != 1
        self._types = {node.name: _INTEGERS[node.type] for node in self._session.get_inputs()}
        self._outputs = [self._session.get_outputs()[0].name]
        self._tokenizer = load_tokenizer(files.folder, read_settings(files.folder).max_tokens)

    def feed(self, text: str) -> Feed:
        """The ONNX session's inputs for a text, so that only the session is timed."""
        return self._feed([self._tokenizer.encode(text).ids])

    def run(self, feed: Feed) -> Any:
        """Call the ONNX session."""
        return self._session.run(self._outputs, feed)[0]

    def encode_seconds(self, texts: Sequence[str]) -> float:
        """Seconds to tokenise and encode texts, in batches if the graph permits it."""
        start = perf_counter()
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        rows.sort(key=len, reverse=True)
        position = 0
        while position < len(rows):
            count = max(1, BATCH_TOKENS // len(rows[position])) if self._batches else 1
            self.run(self._feed(rows[position : position + count]))
            position += count
        return perf_counter() - start

    def _feed(self, rows: Sequence[Sequence[int]]) -> Feed:
        shape = len(rows), len(rows[0])
        ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        tensors = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return {name: tensors[name].astype(dtype) for name, dtype in self._types.items()}
