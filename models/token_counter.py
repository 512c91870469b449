"""Counts tokens with tiktoken encodings; replaces lone surrogates, which no tokenizer accepts."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ..errors import ModelError
from .hub import WEIGHTS_FOLDER

if TYPE_CHECKING:
    import tiktoken


_BUNDLED = "cl100k_base"
# As published with tiktoken (MIT) for this encoding.
_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_SPECIAL_TOKENS = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}

_MAX_RUN_CHARS = 1_000
"""Byte-pair merging is quadratic in the length of a piece, and a piece can be as long as a run of
letters, of punctuation or of spaces; a longer run is counted in parts of this many characters."""

_LONG_RUN = re.compile(
    rf"(?:\w{{{_MAX_RUN_CHARS}}}|[^\w\s]{{{_MAX_RUN_CHARS}}}|\s{{{_MAX_RUN_CHARS}}})"
)


class TokenCounter:
    """Counts tokens with a tiktoken encoding; special tokens count as the plain text they are.

    The bundled ``cl100k_base`` needs no network; the vocabulary is read at the first count.
    Exact, except for runs of more than 1,000 characters without a break, where the count may be
    a token too high per 1,000 characters.

    Args:
        encoding: name of a tiktoken encoding.
    """

    def __init__(self, encoding: str = _BUNDLED) -> None:
        self.encoding = encoding

    def count(self, text: str) -> int:
        """Number of tokens of a text.

        Raises:
            ModelError: the encoding is unknown, or has to be downloaded and cannot be.
        """
        text = without_surrogates(text)
        return sum(len(self._encoding.encode_ordinary(part)) for part in _split_long_runs(text))

    def count_many(self, texts: Iterable[str]) -> list[int]:
        """Number of tokens of each text; see `count`."""
        return [self.count(text) for text in texts]

    @cached_property
    def _encoding(self) -> tiktoken.Encoding:
        return (
            _bundled_encoding() if self.encoding == _BUNDLED else _published_encoding(self.encoding)
        )


def _split_long_runs(text: str) -> list[str]:
    if len(text) <= _MAX_RUN_CHARS:
        return [text]
    parts, start = [], 0
    for run in _LONG_RUN.finditer(text):
        parts.append(text[start : run.end()])
        start = run.end()
    parts.append(text[start:])
    return parts


def _bundled_encoding() -> tiktoken.Encoding:
    import tiktoken

    # tiktoken's own reader copies what it reads into a shared temporary folder.
    lines = (WEIGHTS_FOLDER / f"{_BUNDLED}.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    return tiktoken.Encoding(
        _BUNDLED, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=_SPECIAL_TOKENS
    )


def _published_encoding(name: str) -> tiktoken.Encoding:
    import tiktoken

    encodings = tiktoken.list_encoding_names()
    if name not in encodings:
        raise ModelError(f"no token encoding {name!r}; use one of: {', '.join(sorted(encodings))}")
    try:
        return tiktoken.get_encoding(name)
    except Exception as error:
        raise ModelError(
            f"cannot download the token encoding {name!r} ({type(error).__name__}: {error}). Use "
            f"{_BUNDLED!r}, which is bundled, or point TIKTOKEN_CACHE_DIR at a folder that "
            "already holds it"
        ) from error


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
