"""Opening an ONNX file for inference on the CPU."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ..errors import ModelError

IntTensor = NDArray[np.int32] | NDArray[np.int64]

_INTEGER_TYPES = {"tensor(int32)": np.dtype(np.int32), "tensor(int64)": np.dtype(np.int64)}
_TEXT_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


def default_threads() -> int:
    """Threads for one call: a short query gains from a second thread and from no third."""
    return min(2, os.cpu_count() or 1)


def open_session(path: Path, threads: int | None) -> ort.InferenceSession:
    """Open an ONNX file.

    Args:
        path: the file.
        threads: CPU threads for one call, or None for the default.

    Raises:
        ModelError: the file is not a text model that ONNX Runtime can run.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = default_threads() if threads is None else threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    # Idle threads that spin take the cores from other callers and from the rest of the process.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"{path}: ONNX Runtime cannot open it: {error}") from error
    unknown = {node.name for node in session.get_inputs()} - _TEXT_INPUTS
    if unknown:
        raise ModelError(f"{path}: unknown inputs {sorted(unknown)}; a text model takes {_TEXT_INPUTS}")
    return session


def input_types(session: ort.InferenceSession) -> dict[str, np.dtype[np.int32] | np.dtype[np.int64]]:
    """Integer type of each input of a session, by name."""
    return {node.name: _INTEGER_TYPES[node.type] for node in session.get_inputs()}


def fingerprint(files: Sequence[Path], settings: str) -> str:
    """Hash the bytes of a model's files together with its settings.

    Args:
        files: the files that decide what the model computes.
        settings: what else decides it.
    """
    digest = hashlib.sha256(settings.encode())
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
