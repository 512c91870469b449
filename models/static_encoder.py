"""An encoder without a neural network: it adds token vectors from a table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from .model_protocols import OnEncoded
from .tokenization import cut_for_tokenizer, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ARRAY_NAMES = (
    "query_rows",
    "query_scales",
    "gram_rows",
    "gram_scales",
    "tool_rows",
    "tool_scales",
    "tool_places",
    "projection",
)
#: Texts from which on words are tokenised, see `_WordIds`.
_MIN_TEXTS_FOR_WORD_IDS = 16
_WORD = re.compile(r"[^ \t\n\r!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
# The tokenizer looks for these before it splits a text.
_SPECIAL_TOKENS = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]")
_ROWS_A_BLOCK = 4_096
_GRAM_LENGTH = 4
#: Characters of a text whose n-grams are read.
_GRAM_CHARACTERS = 1_024


def character_grams(text: str, buckets: int) -> NDArray[np.int64]:
    """Hash buckets of a text's character 4-grams, shape (n,).

    They distinguish words of other languages, which the vocabulary splits into single characters.

    Args:
        text: any string. Letter case and white space are ignored.
        buckets: number of buckets, a power of two.
    """
    spaced = f" {' '.join(text[:_GRAM_CHARACTERS].lower().split())} "
    codes = np.frombuffer(spaced.encode("utf-32-le", "surrogatepass"), np.uint32)
    count = len(codes) - _GRAM_LENGTH + 1
    if count < 1:
        return np.empty(0, np.int64)
    # Multiplicative hashing modulo 2^32; the high bits are the well mixed ones.
    hashes = np.zeros(count, np.uint32)
    for offset in range(_GRAM_LENGTH):
        hashes = (hashes ^ codes[offset : offset + count]) * np.uint32(2_654_435_761)
        hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(buckets - 1)).astype(np.int64)


class StaticEncoder:
    """An encoder of tables: about 0.05 ms a query, without ONNX Runtime.

    Query vectors lie in the space of another encoder, the teacher, after a projection to fewer
    dimensions. They are compared with projected vectors of the teacher, or with the vectors that
    this encoder makes of definitions from a second table. Thread-safe.

    Args:
        folder: folder with the tables, see `lab/training/static_vectors.py`.
        tokenizer: folder of the teacher's tokenizer.

    Attributes:
        teacher_fingerprint: fingerprint of the encoder whose vectors `project` takes.
        teacher_dim: length of that encoder's vectors.

    Raises:
        ModelError: a file is missing or damaged.
    """

    in_process = True
    """Whether a call runs in this process and takes about as long as the last one."""

    def __init__(self, folder: Path, tokenizer: Path) -> None:
        self.name = "static"
        self._folder = folder
        try:
            settings = json.loads((folder / "static.json").read_text(encoding="utf-8"))
            self.teacher_fingerprint = str(settings["teacher"])
            self._max_tokens = int(settings["max_tokens"])
            tables = {
                name: np.load(folder / f"{name}.npy", mmap_mode="r" if "rows" in name else None)
                for name in _ARRAY_NAMES
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{folder}: no tables of static vectors: {error}; install shortlist again"
            ) from error
        self._query = _Table(tables["query_rows"], tables["query_scales"])
        self._grams = _Table(tables["gram_rows"], tables["gram_scales"])
        self._tool = _Table(tables["tool_rows"], tables["tool_scales"])
        self._tool_places: NDArray[np.int16] = tables["tool_places"]
        self._projection: NDArray[np.float32] = tables["projection"].astype(np.float32)
        self._tokenizer = load_tokenizer(tokenizer, self._max_tokens)
        self.teacher_dim: int = self._projection.shape[0]
        self.dim: int = self._projection.shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the tables and the settings."""
        digest = hashlib.sha256()
        for path in sorted(self._folder.iterdir()):
            if path.suffix in (".npy", ".json"):
                digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def encode(
        self, texts: Sequence[str], *, query: bool = False, progress: OnEncoded | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; see `Encoder.encode`."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        word_ids = (
            _WordIds(self._tokenizer, self._max_tokens)
            if len(texts) >= _MIN_TEXTS_FOR_WORD_IDS
            else None
        )
        for row, text in enumerate(texts):
            bounded = cut_for_tokenizer(text, self._max_tokens)
            token_ids = (
                self._tokenizer.encode(bounded).ids
                if word_ids is None
                else word_ids.of_text(bounded)
            )
            ids = np.array(token_ids, np.int64)
            vectors[row] = self._query_sum(text, ids) if query else self._tool_sum(ids)
            if progress is not None:
                progress(1)
        return _units(vectors)

    def project(
        self, vectors: NDArray[np.float32], *, keep_lengths: bool = False
    ) -> NDArray[np.float32]:
        """Vectors of the teacher as vectors of this encoder's space, shape (n, dim).

        Args:
            vectors: vectors of the teacher, shape (n, its dim).
            keep_lengths: whether a vector of length l gives one of length l * l, which was chosen
                on mcp_dev (ADR 20); unit vectors otherwise.
        """
        values = _units(vectors @ self._projection)
        if keep_lengths:
            values *= _lengths(vectors) ** 2
        return values

    def encode_for_teacher(
        self, texts: Sequence[str], *, query: bool = False
    ) -> NDArray[np.float32]:
        """What `encode` gives, as vectors of the teacher's space, shape (n, its dim).

        They can be compared with vectors of the teacher. `project` takes them back.
        """
        return _units(self.encode(texts, query=query) @ self._projection.T)

    def _query_sum(self, text: str, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        total = self._query.sum(ids)
        total += self._grams.sum(character_grams(text, len(self._grams)))
        return total

    def _tool_sum(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        places = self._tool_places[ids]
        # Tokens that no training definition has are read as in a query.
        in_tool_table = places >= 0
        total = self._tool.sum(places[in_tool_table])
        if not in_tool_table.all():
            total += self._query.sum(ids[~in_tool_table])
        return total


class _WordIds(dict[str, list[int]]):
    """Token ids of words. Texts of one kind share most of their words, and each is tokenised once.

    The tokenizer (BERT's) splits a text at white space and around punctuation.

    Args:
        tokenizer: the tokenizer, without padding.
        max_tokens: maximum token ids of a text, special tokens included.
    """

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._first, self._last = tokenizer.encode("").ids
        self._max_ids = max_tokens - 1

    def __missing__(self, word: str) -> list[int]:
        ids = self[word] = self._tokenizer.encode(word, add_special_tokens=False).ids
        return ids

    def of_text(self, text: str) -> list[int]:
        """Token ids of a text, as the tokenizer gives them."""
        if _SPECIAL_TOKENS.search(text):
            return self._tokenizer.encode(text).ids
        ids = [self._first]
        for word in _WORD.findall(text):
            ids += self[word]
            if len(ids) >= self._max_ids:
                break
        return [*ids[: self._max_ids], self._last]


class _Table:
    """Rows of int8 with one scale each.

    Args:
        rows: int8 of shape (n, dim).
        scales: float16 of shape (n,).
    """

    def __init__(self, rows: NDArray[np.int8], scales: NDArray[np.float16]) -> None:
        # A plain array over the mapped file: indexing the mapping itself is slower.
        self._rows = np.asarray(rows)
        self._scales = scales.astype(np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def sum(self, places: NDArray[np.integer]) -> NDArray[np.float32]:
        """Sum of some rows, shape (dim,)."""
        total: NDArray[np.float32] = self._scales[places] @ self._rows[places].astype(np.float32)
        return total


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """L2 norms of rows, shape (n, 1), without a copy of all rows on the way."""
    lengths = np.empty((len(vectors), 1), np.float32)
    for start in range(0, len(vectors), _ROWS_A_BLOCK):
        block = slice(start, start + _ROWS_A_BLOCK)
        # As `np.linalg.norm`, to the last bit, in half its time for one row.
        squares = vectors[block] * vectors[block]
        lengths[block] = np.sqrt(np.add.reduce(squares, axis=1, keepdims=True))
    return lengths


def _units(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same array, with rows of length 1."""
    vectors /= np.maximum(_lengths(vectors), 1e-12)
    return vectors
