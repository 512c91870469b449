"""Turning text into token ids, and texts of many lengths into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ..errors import ModelError

_CHARACTERS_PER_TOKEN = 40
"""Text beyond this many characters per token of the window is cut before it is tokenised: words
average five characters, so it could not have fitted, and tokenising 100 kB to keep 256 tokens
would cost more than the model."""


def load_tokenizer(folder: Path, max_tokens: int) -> Tokenizer:
    """Load a folder's tokenizer.json, cutting at the model's window and never padding.

    Args:
        folder: the model folder.
        max_tokens: window in tokens, special tokens included.

    Raises:
        ModelError: the file is missing or is not a tokenizer.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ModelError(f"{folder}: no tokenizer.json; a slow tokenizer has to be converted first")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ModelError(f"{path}: not a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def encodable(text: str, max_tokens: int) -> str:
    """Bound a text and replace lone surrogates, which no tokenizer accepts, by U+FFFD.

    Args:
        text: any string.
        max_tokens: window of the model the text is for.
    """
    text = text[: max_tokens * _CHARACTERS_PER_TOKEN]
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def length_sorted_batches(
    lengths: Sequence[int], padded_tokens: int
) -> Iterator[NDArray[np.intp]]:
    """Group texts of similar length, longest first, so that little is spent on padding.

    Args:
        lengths: length of each text in tokens.
        padded_tokens: the most tokens a batch may hold, padding included; a single longer text is
            a batch of its own.

    Yields:
        Positions of the texts of one batch.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.intp), kind="stable")
    start = 0
    while start < len(order):
        rows = max(1, padded_tokens // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def pad(rows: Sequence[Sequence[int]], value: int = 0) -> NDArray[np.int64]:
    """Stack rows of different length, filling up on the right.

    Args:
        rows: the rows, at least one.
        value: what to fill up with.

    Returns:
        Integers of shape (len(rows), length of the longest row).
    """
    padded = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
