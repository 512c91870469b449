"""The vectors of a catalog's tools.

A row that the encoder has not read yet has a static vector, and a key that says so, see
`static_key`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.document import embedding_text
from ..models import Encoder
from .background import in_background
from .change import NEW, Change, patched
from .stand_in import StandIn, is_static, static_key


@dataclass(frozen=True, slots=True)
class Vectors:
    """The encoded tools of an index.

    Args:
        values: shape (n, dim), L2-normalised, by row.
        keys: hash of the text each row was encoded from; a `static_key` of it where the encoder
            has not read the text yet.
        model: fingerprint of the encoder.
    """

    values: NDArray[np.float32]
    keys: tuple[bytes, ...]
    model: str

    def fits(self, encoder: Encoder) -> bool:
        """Whether an encoder made them."""
        return self.model == encoder.fingerprint

    def pending(self) -> NDArray[np.int64]:
        """Rows that the encoder has not read yet, ascending."""
        return is_static(self.keys)

    def filled(self, made: Vectors) -> Vectors:
        """These vectors with those of texts that the encoder has read meanwhile.

        Args:
            made: what it made; texts that no row waits for are passed over.
        """
        places = {static_key(key): place for place, key in enumerate(made.keys)}
        waiting = self.pending().tolist()
        rows = np.array([row for row in waiting if self.keys[row] in places], np.int64)
        if not len(rows):
            return self
        chosen = np.array([places[self.keys[row]] for row in rows.tolist()], np.int64)
        keys = list(self.keys)
        for row, place in zip(rows.tolist(), chosen.tolist(), strict=True):
            keys[row] = made.keys[place]
        values = patched(self.values, len(keys), rows, made.values[chosen])
        return Vectors(values, tuple(keys), self.model)


def encode_tools(
    encoder: Encoder,
    tools: Sequence[Tool],
    known: Vectors | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    stand_in: StandIn | None = None,
    background: bool = False,
) -> tuple[Vectors, int]:
    """Vectors of the tools. They are reused from `known` if model and text are the same.

    Args:
        encoder: encodes new texts.
        tools: tools in order of row.
        known: vectors of an earlier version.
        progress: called with (tools encoded, tools to encode).
        stand_in: returns vectors of new texts, in place of the encoder.
        background: whether searches take precedence over the encoding.

    Returns:
        The vectors and how many were encoded.
    """
    texts = [embedding_text(tool) for tool in tools]
    keys = tuple(map(_key, texts))
    if known is not None and not known.fits(encoder):
        known = None
    # Place of each key among the vectors there are: the known ones, and the fresh behind them.
    places = {key: row for row, key in enumerate(known.keys)} if known else {}
    if stand_in is not None:
        keys = tuple(key if key in places else static_key(key) for key in keys)
    fresh: dict[bytes, str] = {}
    for key, text in zip(keys, texts, strict=True):
        if key not in places:
            fresh.setdefault(key, text)
    count = len(known.keys) if known else 0
    places.update({key: count + place for place, key in enumerate(fresh)})
    values: list[NDArray[np.float32]] = []
    rows = np.array([places[key] for key in keys], np.int64)
    if known is not None:
        values.append(known.values)
    if fresh or known is None:
        new_texts = list(fresh.values())
        if stand_in is None:
            advance = _counted(progress, len(fresh))
            if background and fresh:
                values.append(
                    in_background(
                        lambda report: encoder.encode(new_texts, progress=report), advance
                    )
                )
            else:
                values.append(encoder.encode(new_texts, progress=advance))
        else:
            values.append(stand_in.encoded(new_texts))
    count = 0 if stand_in else len(fresh)
    if len(values) == 1 and np.array_equal(rows, np.arange(len(values[0]))):
        return Vectors(values[0], keys, encoder.fingerprint), count
    return Vectors(_rows_of_parts(values, rows), keys, encoder.fingerprint), count


def patch_vectors(
    encoder: Encoder,
    known: Vectors,
    change: Change,
    progress: Callable[[int, int], None] | None = None,
    stand_in: StandIn | None = None,
) -> tuple[Vectors, int]:
    """Vectors of the next version's tools; only texts that no tool had are encoded.

    Searches of the version before take precedence over the encoding.

    Args:
        encoder: the one that made the known vectors.
        known: vectors of the version before.
        change: change from that version to the next.
        progress: called with (tools encoded, tools to encode).
        stand_in: returns vectors of new texts, in place of the encoder.

    Returns:
        The vectors and how many were encoded.
    """
    size, rows, sources = len(change.tools), change.rows, change.sources.copy()
    new = sources == NEW
    made, encoded_count = encode_tools(
        encoder,
        [change.tools[row] for row in rows[new].tolist()],
        known,
        progress,
        stand_in=stand_in,
        background=True,
    )
    # Texts that are not among the known rows are numbered downwards from -1.
    sources[new] = -1 - np.arange(len(made.keys))
    keys = [*known.keys[:size], *[b""] * (size - len(known.keys))]
    for row, source in zip(rows.tolist(), sources.tolist(), strict=True):
        keys[row] = known.keys[source] if source >= 0 else made.keys[-1 - source]
    values = np.empty((len(rows), known.values.shape[1]), np.float32)
    values[new] = made.values
    values[~new] = known.values[sources[~new]]
    values = patched(known.values, size, rows, values)
    return Vectors(values, tuple(keys), known.model), encoded_count


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def _counted(progress: Callable[[int, int], None] | None, count: int) -> Callable[[int], None]:
    """Progress as an encoder reports it, made into (texts encoded, texts to encode)."""
    done = 0

    def advance(further: int) -> None:
        nonlocal done
        done += further
        if progress:
            progress(done, count)

    return advance


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
