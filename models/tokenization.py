"""Turns text into token ids."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from ..errors import ModelError
from .token_counter import without_surrogates

_CHARACTERS_PER_TOKEN = 40
"""Text beyond this many characters per token of the window is cut before it is tokenised: words
average five characters, so it could not have fitted, and tokenising 100 kB to keep 256 tokens
would cost more than the model."""


def load_tokenizer(folder: Path, max_tokens: int) -> Tokenizer:
    """Load a folder's tokenizer.json, cutting at the model's window and never padding.

    Of a pair that does not fit, the longer text is cut first.

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
    tokenizer.enable_truncation(max_tokens, strategy="longest_first")
    return tokenizer


def cut_for_tokenizer(text: str, max_tokens: int) -> str:
    """Bound a text and replace lone surrogates, which no tokenizer accepts, by U+FFFD.

    Args:
        text: any string.
        max_tokens: window of the model the text is for.
    """
    return without_surrogates(text[: max_tokens * _CHARACTERS_PER_TOKEN])
