"""A cross-encoder on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .hub import ModelFiles
from .onnx_session import OnnxModel
from .tokenization import encodable


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
        query = encodable(query, window)
        scores = np.empty(len(texts), np.float32)

        def score_one(row: int) -> None:
            encoding = self._tokenizer.encode(query, encodable(texts[row], window))
            [logits] = self._session.run(["logits"], encoding.ids, encoding.type_ids)
            scores[row] = logits[0, -1]

        self._session.for_each(len(texts), score_one, None)
        return scores
