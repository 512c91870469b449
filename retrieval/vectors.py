"""The vectors of a catalog's tools.

A row that the encoder has not read yet has a static vector, and a key that says so, see
`static_key`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..catalog import Tool
from ..catalog.document import embedding_text
from ..models import Encoder, TokenTable, TokenVectors, encoded, gives_tokens
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
        tokens: those of each row's text, where the encoder gives them.
    """

    values: NDArray[np.float32]
    keys: tuple[bytes, ...]
    model: str
    tokens: TokenVectors | TokenTable | None = None

    def fits(self, encoder: Encoder, *, tokens: bool) -> bool:
        """Whether an encoder made them, with those of the tokens where these are wanted."""
        has = self.tokens is not None or not tokens or not gives_tokens(encoder)
        return self.model == encoder.fingerprint and has

    def pending(self) -> NDArray[np.int64]:
        """Rows that the encoder has not read yet, ascending."""
        return is_static(self.keys)

    def filled(self, made: Vectors) -> Vectors:
        """These vectors with those of texts that the encoder has read meanwhile.

        Args:
            made: what it made; texts that no row waits for are passed over, and all of it where it
                lacks vectors of tokens that other rows have.
        """
        if made.tokens is None and self.tokens is not None:
            return self
        places = {static_key(key): place for place, key in enumerate(made.keys)}
        waiting = self.pending().tolist()
        rows = np.array([row for row in waiting if self.keys[row] in places], np.int64)
        if not len(rows):
            return self
        chosen = np.array([places[self.keys[row]] for row in rows.tolist()], np.int64)
        keys = list(self.keys)
        for row, place in zip(rows.tolist(), chosen.tolist(), strict=True):
            keys[row] = made.keys[place]
        size, table = len(keys), self.tokens
        if made.tokens is not None:
            fresh = TokenTable.of(made.tokens).whole()
            blank = TokenVectors.blank(size, fresh.dim) if table is None else table
            table = TokenTable.of(blank).patched(size, rows, -1 - chosen, fresh)
        values = patched(self.values, size, rows, made.values[chosen])
        return Vectors(values, tuple(keys), self.model, table)


def encode_tools(
    encoder: Encoder,
    tools: Sequence[Tool],
    known: Vectors | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    tokens: bool = True,
    stand_in: StandIn | None = None,
    background: bool = False,
) -> tuple[Vectors, int]:
    """Vectors of the tools. They are reused from `known` if model and text are the same.

    Args:
        encoder: encodes new texts.
        tools: tools in order of row.
        known: vectors of an earlier version.
        progress: called with (tools encoded, tools to encode).
        tokens: whether to return token vectors too, if the encoder has them.
        stand_in: returns vectors of new texts, in place of the encoder.
        background: whether searches take precedence over the encoding.

    Returns:
        The vectors and how many were encoded.
    """
    texts = [embedding_text(tool) for tool in tools]
    keys = tuple(map(_key, texts))
    wanted = tokens and stand_in is None
    if known is not None and not known.fits(encoder, tokens=wanted):
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
    held: list[TokenVectors] = []
    rows = np.array([places[key] for key in keys], np.int64)
    token_rows = rows
    if known is not None:
        values.append(known.values)
        if tokens and known.tokens is not None:
            table = TokenTable.of(known.tokens)
            held += [table.base, table.patch]
            token_rows = np.concatenate([table.places, table.count + np.arange(len(fresh))])[rows]
    if fresh or known is None:
        if stand_in is None:
            advance = _counted(progress, len(fresh))
            run = partial(encoded, encoder, list(fresh.values()), tokens=tokens)
            if background and fresh:
                made = in_background(lambda report: run(progress=report), advance)
            else:
                made = run(progress=advance)
        else:
            made = stand_in.encoded(list(fresh.values()), held[0].dim if held else None)
        values.append(made[0])
        if made[1] is not None:
            held.append(made[1])
        del made
    count = 0 if stand_in else len(fresh)
    if len(values) == 1 and np.array_equal(rows, np.arange(len(values[0]))):
        whole = held[0] if held else None
        if known is None or not isinstance(known.tokens, TokenTable):
            return Vectors(values[0], keys, encoder.fingerprint, whole), count
    chosen = _rows_of_parts(values, rows)
    # Let go of before the tokens, the larger half, are copied in turn.
    values.clear()
    chosen_tokens = TokenVectors.joined(held, token_rows) if held else None
    return Vectors(chosen, keys, encoder.fingerprint, chosen_tokens), count


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
        tokens=known.tokens is not None,
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
    table = known.tokens
    if table is not None and made.tokens is not None:
        fresh = TokenTable.of(made.tokens).whole()
        table = TokenTable.of(table).patched(size, rows, sources, fresh)
    return (
        Vectors(patched(known.values, size, rows, values), tuple(keys), known.model, table),
        encoded_count,
    )


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
