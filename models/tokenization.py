"""Turning text into token ids."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer

from ..errors import ModelError

_CHARACTERS_PER_TOKEN = 40
"""Text beyond this many characters per token of the window is cut before it is tokenised: words
average five characters, so it could not have fitted, and tokenising 100 kB to keep 256 tokens
would cost more than the model."""


def load_tokenizer(
    folder: Path, max_tokens: int, *, cut: Literal["longest_first", "only_second"] = "longest_first"
) -> Tokenizer:
    """Load a folder's tokenizer.json, cutting at the model's window and never padding.

    Args:
        folder: the model folder.
        max_tokens: window in tokens, special tokens included.
        cut: which text of a pair to cut when both do not fit.

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
    tokenizer.enable_truncation(max_tokens, strategy=cut)
    return tokenizer


def encodable(text: str, max_tokens: int) -> str:
    """Bound a text and replace lone surrogates, which no tokenizer accepts, by U+FFFD.

    Args:
        text: any string.
        max_tokens: window of the model the text is for.
    """
    return without_surrogates(text[: max_tokens * _CHARACTERS_PER_TOKEN])


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD; other text is returned as is.

    Args:
        text: any string.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
