"""Encoders and rerankers with each answer checked, so that a bad one cannot change a ranking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, ShortlistError
from .model_protocols import Encoder, OnEncoded, Reranker

_LENGTH_TOLERANCE = 0.01
"""How far the length of a vector may be from 1. Vectors that were rounded to 16 bits pass."""


class CheckedEncoder:
    """An encoder with each answer checked: shape, type, finite numbers, unit length.

    Vectors of zeros are permitted, for texts without a word.

    Args:
        model: the encoder; its attributes are those of this one.

    Attributes:
        model: the encoder.
        in_process: whether it runs in this process. Later calls then take nearly the same time.
    """

    def __init__(self, model: Encoder) -> None:
        self.model = model
        self.in_process = bool(getattr(model, "in_process", False))

    @property
    def name(self) -> str:
        """Name of the encoder."""
        return self.model.name

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.model.dim

    @property
    def fingerprint(self) -> str:
        """Hash of everything the vectors depend on."""
        return self.model.fingerprint

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`.

        Raises:
            ModelError: the encoder fails, or its answer is not as the protocol says.
        """
        model, subject = self.model, f"encoder {self.name!r}"
        # What the caller's own function raises is no failure of the encoder.
        progress_errors: list[Exception] = []

        def report(count: int) -> None:
            try:
                if progress is not None:
                    progress(count)
            except Exception as error:
                progress_errors.append(error)
                raise

        vectors = _answer(
            subject,
            lambda: model.encode(texts, query=query, progress=None if progress is None else report),
            (len(texts), self.dim),
            progress_errors,
        )
        lengths = np.linalg.norm(vectors, axis=1)
        wrong = lengths[(lengths > 0) & (np.abs(lengths - 1) > _LENGTH_TOLERANCE)]
        if len(wrong):
            raise ModelError(
                f"{subject}: encode returned a vector of length {wrong[0]:.3g}; return vectors of "
                "length 1: divide each by its length"
            )
        return vectors


class CheckedReranker:
    """A reranker with each answer checked: shape, type, finite numbers.

    Args:
        model: the reranker; its attributes are those of this one.

    Attributes:
        model: the reranker.
    """

    def __init__(self, model: Reranker) -> None:
        self.model = model

    @property
    def name(self) -> str:
        """Name of the reranker."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Hash of everything the scores depend on."""
        return self.model.fingerprint

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Score texts against one query; see `Reranker.score`.

        Raises:
            ModelError: the reranker fails, or its answer is not as the protocol says.
        """
        subject = f"reranker {self.name!r}"
        return _answer(subject, lambda: self.model.score(query, texts), (len(texts),))


def _answer(
    subject: str,
    call: Callable[[], Any],
    shape: tuple[int, ...],
    own_errors: Sequence[Exception] = (),
) -> NDArray[np.float32]:
    """The answer of a model as float32.

    Args:
        subject: names the model in errors.
        call: calls the model.
        shape: the shape that the answer must have.
        own_errors: errors of the caller, which are raised as they are.

    Raises:
        ModelError: the call fails, or its answer is not a finite array of this shape.
    """
    try:
        answer = call()
    except Exception as error:
        if isinstance(error, ShortlistError) or error in own_errors:
            raise
        raise ModelError(f"{subject} failed: {type(error).__name__}: {error}") from error
    method = "encode" if len(shape) == 2 else "score"
    wanted = f"return a numpy array of float32, shape {shape}"
    if not isinstance(answer, np.ndarray):
        raise ModelError(f"{subject}: {method} returned a {type(answer).__name__}; {wanted}")
    if not np.issubdtype(answer.dtype, np.floating):
        raise ModelError(f"{subject}: {method} returned an array of {answer.dtype}; {wanted}")
    if answer.shape != shape:
        raise ModelError(f"{subject}: {method} returned an array of shape {answer.shape}; {wanted}")
    values: NDArray[np.float32] = answer.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise ModelError(f"{subject}: {method} returned numbers that are not finite (NaN or inf)")
    return values
