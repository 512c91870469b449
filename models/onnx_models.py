"""Encoders and rerankers on ONNX Runtime, on the CPU, one text at a time."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ..errors import ModelError
from .hub import ModelFiles
from .model_folder import read_settings
from .model_protocols import OnEncoded
from .tokenization import cut_for_tokenizer, load_tokenizer

_INTEGER_TYPES: dict[str, type[np.signedinteger[Any]]] = {
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
}
_TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_TEXTS_PER_TASK = 16
#: Every ONNX session of this process that is alive.
_LIVE_SESSIONS: WeakSet[ort.InferenceSession] = WeakSet()


def default_threads() -> int:
    """Default threads for one call: two, because a third gains little for a short query."""
    return min(2, os.cpu_count() or 1)


class TextSession:
    """An ONNX text model opened for inference.

    Args:
        path: the ONNX file.
        max_tokens: maximum number of tokens of a text.
        threads: CPU threads for one call, or None for the default.

    Raises:
        ModelError: the file is not a text model that ONNX Runtime can run.
    """

    def __init__(self, path: Path, max_tokens: int, threads: int | None) -> None:
        self._path = path
        self._threads = default_threads() if threads is None else threads
        self._session = _open_session(path, self._threads)
        types = _input_types(self._session, path)
        self._ids_type = types.pop("input_ids")
        self._segment_type = types.get("token_type_ids")
        # A text of its own has no padding, so these depend on nothing but its length.
        self._constants = {
            name: np.full((1, max_tokens), int(name == "attention_mask"), dtype)
            for name, dtype in types.items()
        }
        self._shapes = {node.name: node.shape for node in self._session.get_outputs()}

    def choose_output(self, names: Sequence[str]) -> str:
        """The first of these outputs that the model has.

        Raises:
            ModelError: the model has none of them.
        """
        for name in names:
            if name in self._shapes:
                return name
        raise ModelError(
            f"{self._path}: its outputs are {', '.join(self._shapes)}; expected "
            f"{' or '.join(names)}"
        )

    def width(self, output: str) -> int:
        """Length of the last axis of an output; 0 if the model does not have it.

        Raises:
            ModelError: it varies.
        """
        width = self._shapes.get(output, (0,))[-1]
        if not isinstance(width, int):
            raise ModelError(
                f"{self._path}: the length of its {output!r} is not fixed: {self._shapes[output]}"
            )
        return width

    def run(
        self, outputs: Sequence[str], ids: Sequence[int], segments: Sequence[int] | None = None
    ) -> list[NDArray[np.float32]]:
        """Run one text.

        Args:
            outputs: names of outputs.
            ids: token ids of the text.
            segments: for a pair of texts, which of the two each token belongs to.

        Returns:
            The outputs, whose first axis has length one.
        """
        results: list[NDArray[np.float32]] = self._session.run(outputs, self._feed(ids, segments))
        return results

    def _feed(self, ids: Sequence[int], segments: Sequence[int] | None) -> dict[str, NDArray[Any]]:
        count = len(ids)
        feed: dict[str, NDArray[Any]] = {"input_ids": np.array((ids,), self._ids_type)}
        for name, constant in self._constants.items():
            feed[name] = constant[:, :count]
        if segments is not None and self._segment_type is not None:
            feed["token_type_ids"] = np.array((segments,), self._segment_type)
        return feed

    def for_each(self, count: int, work: Callable[[int], None], progress: OnEncoded | None) -> None:
        """Call ``work`` with 0 .. count - 1, as many at a time as the session has threads.

        Args:
            count: how many calls.
            work: what to do; raises what it raises.
            progress: called from this thread with the number of calls done since the last one.
        """

        def task(start: int) -> int:
            stop = min(start + _TEXTS_PER_TASK, count)
            for position in range(start, stop):
                work(position)
            return stop - start

        def report(finished_calls: int) -> None:
            if progress is not None:
                progress(finished_calls)

        starts = range(0, count, _TEXTS_PER_TASK)
        if self._threads == 1 or len(starts) <= 1:
            for start in starts:
                report(task(start))
            return
        with ThreadPoolExecutor(self._threads) as pool:
            for finished_calls in pool.map(task, starts):
                report(finished_calls)


def _open_session(path: Path, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Threads that spin while idle take the cores from other callers and from everything else.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Sums of int8 products overflow on processors without VNNI. This setting computes them exactly
    # there, so that every processor gives the same vectors, and changes nothing elsewhere.
    options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime cannot open it: {error}") from error
    _LIVE_SESSIONS.add(session)
    return session


def _keep_copies() -> None:
    """Keep the copies that a fork made of sessions from ever being destroyed.

    The destructor joins the session's threads, which the child does not have: it would hang when
    it drops an engine or exits.
    """
    for session in _LIVE_SESSIONS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_keep_copies)


def _input_types(
    session: ort.InferenceSession, path: Path
) -> dict[str, type[np.signedinteger[Any]]]:
    types = {node.name: node.type for node in session.get_inputs()}
    unknown = {
        name: kind
        for name, kind in types.items()
        if name not in _TEXT_INPUTS or kind not in _INTEGER_TYPES
    }
    if unknown or "input_ids" not in types:
        raise ModelError(
            f"{path}: its inputs are {types}; a text model takes integers called "
            f"{', '.join(_TEXT_INPUTS)}"
        )
    return {name: _INTEGER_TYPES[kind] for name, kind in types.items()}


class OnnxModel:
    """A model on ONNX Runtime with its tokenizer and settings.

    Args:
        files: of the model.
        threads: for one call; None for `default_threads`.
    """

    def __init__(self, files: ModelFiles, *, threads: int | None = None) -> None:
        self.name = files.name
        self._files = files
        self._settings = read_settings(files.folder)
        self._tokenizer = load_tokenizer(files.folder, self._settings.max_tokens)
        self._session = TextSession(files.onnx, self._settings.max_tokens, threads)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights, the tokenizer and the settings."""
        digest = hashlib.sha256(repr(self._settings).encode())
        for path in (self._files.onnx, self._files.folder / "tokenizer.json"):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()


_UNIT_OUTPUT = "embedding"
_VECTOR_OUTPUTS = (_UNIT_OUTPUT, "sentence_embedding", "last_hidden_state", "token_embeddings")


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
        self._output = self._session.choose_output(_VECTOR_OUTPUTS)
        self._is_unit = self._output == _UNIT_OUTPUT
        self.dim: int = self._session.width(self._output)

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
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
        ids: list[int] = self._tokenizer.encode(
            cut_for_tokenizer(text, self._settings.max_tokens)
        ).ids
        [result] = self._session.run([self._output], ids)
        return result if self._is_unit else self._pool(result)

    def _pool(self, result: NDArray[Any]) -> NDArray[np.float32]:
        """Turn token vectors (1, sequence, dim) or one raw vector (1, dim) into a unit vector."""
        pooled = result
        if result.ndim == 3:
            pooled = result[:, 0] if self._settings.pooling == "cls" else result.mean(axis=1)
        unit = pooled / max(float(np.linalg.norm(pooled)), 1e-12)
        return unit.astype(np.float32, copy=False)


class OnnxReranker(OnnxModel):
    """A cross-encoder on ONNX Runtime.

    Pairs run one by one, several at a time, for the reasons `OnnxEncoder` gives: a pair's score
    does not depend on what else is scored, and nothing is spent on padding. Thread-safe.

    Args:
        files: the model.
        threads: CPU threads for one call; by default two, or one on a single-core machine.

    Raises:
        ModelError: the files are not a cross-encoder that ONNX Runtime can run.
    """

    def __init__(self, files: ModelFiles, *, threads: int | None = None) -> None:
        super().__init__(files, threads=threads)
        labels = self._session.width(self._session.choose_output(("logits",)))
        if labels not in (1, 2):
            raise ModelError(
                f"{files.onnx}: a reranker has one logit, or two of which the second means "
                f"relevant; this one has {labels}"
            )

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query; see `Reranker.score`."""
        window = self._settings.max_tokens
        query = cut_for_tokenizer(query, window)
        scores = np.empty(len(texts), np.float32)

        def score_one(row: int) -> None:
            encoding = self._tokenizer.encode(query, cut_for_tokenizer(texts[row], window))
            [logits] = self._session.run(["logits"], encoding.ids, encoding.type_ids)
            scores[row] = logits[0, -1]

        self._session.for_each(len(texts), score_one, None)
        return scores
