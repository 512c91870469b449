"""The vectors of a catalog's tools."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.document import embedding_text
from ..models import Encoder, TokenVectors, encoded, gives_tokens


@dataclass(frozen=True, slots=True)
class Vectors:
    """The encoded tools of an index.

    Args:
        values: shape (n, dim), L2-normalised, a row for each tool in order of id.
        keys: hash of the text each row was encoded from.
        model: fingerprint of the encoder.
        tokens: those of each row's text, where the encoder gives them.
    """

    values: NDArray[np.float32]
    keys: tuple[bytes, ...]
    model: str
    tokens: TokenVectors | None = None

    def fits(self, encoder: Encoder, *, tokens: bool) -> bool:
        """Whether an encoder made them, with those of the tokens where these are wanted."""
        has = self.tokens is not None or not tokens or not gives_tokens(encoder)
        return self.model == encoder.fingerprint and has


def encode_tools(
    encoder: Encoder,
    tools: Sequence[Tool],
    known: Vectors | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    tokens: bool = True,
) -> tuple[Vectors, int]:
    """Vectors of the tools, taken from `known` where model and text are the same.

    Args:
        encoder: encodes what is not known.
        tools: in order of row.
        known: vectors of an earlier version.
        progress: called with (tools encoded, tools to encode).
        tokens: whether those of the tools' tokens are wanted too, if the encoder gives them.

    Returns:
        The vectors and how many were encoded.
    """
    texts = [embedding_text(tool) for tool in tools]
    keys = tuple(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16] for text in texts)
    if known is not None and not known.fits(encoder, tokens=tokens):
        known = None
    # Place of each key among the vectors there are: the known ones, and the fresh behind them.
    places = {key: row for row, key in enumerate(known.keys)} if known else {}
    fresh: dict[bytes, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if key not in places:
            fresh.setdefault(key, text)
    count = len(known.keys) if known else 0
    places.update({key: count + place for place, key in enumerate(fresh)})
    done = 0

    def advance(further: int) -> None:
        nonlocal done
        done += further
        if progress:
            progress(done, len(fresh))

    values: list[NDArray[np.float32]] = []
    parts: list[TokenVectors | None] = []
    if known is not None:
        values.append(known.values)
        parts.append(known.tokens if tokens else None)
    if fresh or known is None:
        made = encoded(encoder, list(fresh.values()), tokens=tokens, progress=advance)
        values.append(made[0])
        parts.append(made[1])
        del made
    rows = np.array([places[key] for key in keys], np.int64)
    if len(values) == 1 and np.array_equal(rows, np.arange(len(values[0]))):
        return Vectors(values[0], keys, encoder.fingerprint, parts[0]), len(fresh)
    chosen = _rows_of_parts(values, rows)
    # Let go of before the tokens, the larger half, are copied in turn.
    values.clear()
    held = [part for part in parts if part is not None]
    chosen_tokens = TokenVectors.joined(held, rows) if len(held) == len(parts) else None
    return Vectors(chosen, keys, encoder.fingerprint, chosen_tokens), len(fresh)


def _rows_of_parts(
    parts: Sequence[NDArray[np.float32]], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Rows of arrays that lie one behind the other, without joining them first."""
    chosen = np.empty((len(rows), parts[0].shape[1]), np.float32)
    first = 0
    for part in parts:
        here = np.flatnonzero((rows >= first) & (rows < first + len(part)))
        chosen[here] = part[rows[here] - first]
        first += len(part)
    return chosen
