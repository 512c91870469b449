"""Any model the sentence-transformers library loads, behind the same protocols."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, ModelError
from .model_protocols import OnEncoded
from .token_counter import without_surrogates

_BATCH = 32


class SentenceTransformersEncoder:
    """A `SentenceTransformer` as an encoder.

    Args:
        model: hub name or folder.
        threads: CPU threads; None leaves torch's own choice. Torch has one setting per process.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ModelError: the library cannot load the model.
    """

    def __init__(self, model: str, *, threads: int | None = None) -> None:
        self.name = model
        self._model = _load("SentenceTransformer", model, threads)
        # Newer versions have it under a shorter name, and warn of the old one.
        dimension = getattr(self._model, "get_embedding_dimension", None)
        self.dim = int((dimension or self._model.get_sentence_embedding_dimension)())
        prompts = self._model.prompts
        self._prompts = {
            True: prompts.get("query", ""),
            False: prompts.get("document") or prompts.get("passage") or "",
        }

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and the prompts."""
        return _fingerprint(self._model, repr(self._prompts))

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = [without_surrogates(text) for text in texts[start : start + _BATCH]]
            vectors[start : start + len(batch)] = self._model.encode(
                batch,
                prompt=self._prompts[query],
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            if progress is not None:
                progress(len(batch))
        return vectors


class SentenceTransformersReranker:
    """A `CrossEncoder` as a reranker.

    Args:
        model: hub name or folder.
        threads: CPU threads; None leaves torch's own choice. Torch has one setting per process.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        ModelError: the library cannot load the model.
    """

    def __init__(self, model: str, *, threads: int | None = None) -> None:
        self.name = model
        self._model = _load("CrossEncoder", model, threads)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights."""
        return _fingerprint(self._model.model, "")

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query; see `Reranker.score`."""
        if not texts:
            return np.empty(0, np.float32)
        query = without_surrogates(query)
        scores = self._model.predict(
            [(query, without_surrogates(text)) for text in texts], show_progress_bar=False
        )
        return np.asarray(scores, np.float32).reshape(len(texts), -1)[:, -1]


def _load(kind: str, model: str, threads: int | None) -> Any:
    try:
        import sentence_transformers
        import torch
    except ImportError as error:
        raise MissingExtraError(
            f"the model 'sentence-transformers:{model}'", "sentence-transformers"
        ) from error
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        return getattr(sentence_transformers, kind)(model, device="cpu")
    except Exception as error:
        raise ModelError(
            f"sentence-transformers cannot load {model!r} ({type(error).__name__}: {error}). Check "
            "the name and the network, or download the model elsewhere and give its folder"
        ) from error


def _fingerprint(module: Any, settings: str) -> str:
    digest = hashlib.sha256(settings.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
