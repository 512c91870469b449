"""Vectors of the tokens of texts, to compare texts token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .encoder import Advance, Encoder

#: What 1.0 is stored as: coordinates of a unit vector in steps of 1/127.
_UNIT = 127


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """Tokens of n texts, one text after the other.

    Args:
        vectors: int8 of shape (tokens, dim); unit vectors times 127.
        weights: float32 of shape (tokens,); how much a token counts in its text, summing to 1.
        starts: int64 of shape (n + 1,); where the tokens of each text begin, and their number.
    """

    vectors: NDArray[np.int8]
    weights: NDArray[np.float32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.float32]] | NDArray[np.float32], dim: int) -> Self:
        """Of texts given as float arrays of shape (tokens, dim + 1), the weight in the last."""
        made = cls.unfilled([len(text) for text in texts], dim)
        for row, text in enumerate(texts):
            made.fill(row, text)
        return made

    @classmethod
    def unfilled(cls, lengths: Sequence[int], dim: int) -> Self:
        """Of texts of so many tokens each, which `fill` is to be called for, one by one."""
        starts = _starts(lengths)
        count = int(starts[-1])
        return cls(np.empty((count, dim), np.int8), np.empty(count, np.float32), starts)

    @classmethod
    def blank(cls, texts: int, dim: int) -> Self:
        """Of texts whose tokens are not known yet: one of no weight each."""
        made = cls.unfilled([1] * texts, dim)
        made.vectors[:], made.weights[:] = 0, 0
        return made

    def has_blank(self) -> bool:
        """Whether the tokens of a text are not known yet."""
        return len(self) > 0 and not np.add.reduceat(self.weights, self.starts[:-1]).all()

    def fill(self, row: int, text: NDArray[np.float32]) -> None:
        """Write one text, shape (tokens, dim + 1); different rows may be written at once."""
        start, stop = self.starts[row : row + 2].tolist()
        self.vectors[start:stop] = np.rint(text[:, :-1] * _UNIT)
        self.weights[start:stop] = text[:, -1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def dim(self) -> int:
        """Length of a token's vector."""
        return int(self.vectors.shape[1])

    def units(self) -> NDArray[np.float32]:
        """The vectors as they were, but for rounding; float32 of shape (tokens, dim)."""
        return self.vectors.astype(np.float32) / np.float32(_UNIT)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> TokenVectors:
        """Some of the texts, in the given order."""
        chosen = np.asarray(rows, np.int64)
        lengths = self.starts[chosen + 1] - self.starts[chosen]
        starts = _starts(lengths)
        # Place of each token: where its text begins, and how far it is into it.
        places = np.repeat(self.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
        return TokenVectors(self.vectors[places], self.weights[places], starts)

    @classmethod
    def joined(cls, parts: Sequence[TokenVectors], rows: NDArray[np.int64] | None = None) -> Self:
        """The texts of several, one after the other, or those at some of their places.

        Args:
            parts: at least one, all of one dim.
            rows: places of the texts wanted; all, where absent.
        """
        texts = [(part, row) for part in parts for row in range(len(part))]
        if rows is not None:
            texts = [texts[row] for row in rows.tolist()]
        spans = [(part, *part.starts[row : row + 2].tolist()) for part, row in texts]
        made = cls.unfilled([stop - start for _, start, stop in spans], parts[0].dim)
        # Text by text, so that large catalogs need no second copy on the way.
        for (part, start, stop), at in zip(spans, made.starts.tolist(), strict=False):
            made.vectors[at : at + stop - start] = part.vectors[start:stop]
            made.weights[at : at + stop - start] = part.weights[start:stop]
        return made


#: Share of the texts that may be replaced before all are copied into one piece.
_LOOSE_SHARE = 5


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """Tokens of n rows, each row's being a text of one of two parts.

    A change of few rows thus copies neither part, and the large one is shared by the versions of an
    index. Texts that no row needs any more stay in the large part for a while.

    Args:
        base: the large part.
        patch: texts that came later.
        places: shape (n,); each row's place in `base`, or len(base) plus its place in `patch`.
    """

    base: TokenVectors
    patch: TokenVectors
    places: NDArray[np.int64]

    @classmethod
    def of(cls, texts: TokenVectors | TokenTable) -> TokenTable:
        """A table of the texts as they are."""
        if isinstance(texts, TokenTable):
            return texts
        return cls(texts, texts.take([]), np.arange(len(texts)))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def count(self) -> int:
        """Texts of both parts, whether a row needs them or not."""
        return len(self.base) + len(self.patch)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> TokenVectors:
        """The texts of some rows, in the given order."""
        places = self.places[np.asarray(rows, np.int64)]
        late = places >= len(self.base)
        if not late.any():
            return self.base.take(places)
        parts = self.base.take(places[~late]), self.patch.take(places[late] - len(self.base))
        # Where each text is once the two are joined.
        order = np.empty(len(places), np.int64)
        order[~late] = np.arange(len(places) - np.count_nonzero(late))
        order[late] = len(parts[0]) + np.arange(len(parts[1]))
        return TokenVectors.joined(parts, order)

    def whole(self) -> TokenVectors:
        """The texts of all rows in one piece; the base itself where that is what they are."""
        if len(self) == len(self.base) and np.array_equal(self.places, np.arange(len(self))):
            return self.base
        return TokenVectors.joined((self.base, self.patch), self.places)

    def patched(
        self, size: int, rows: NDArray[np.int64], sources: NDArray[np.int64], texts: TokenVectors
    ) -> TokenTable:
        """A table in which some rows are others.

        Args:
            size: its number of rows.
            rows: the other rows, shape (m,); rows this table lacks must be among them.
            sources: for each of `rows` the row of this table to take, or -1 - i for text i of
                `texts`.
            texts: tokens this table lacks.
        """
        places = np.empty(size, np.int64)
        shared = min(size, len(self))
        places[:shared] = self.places[:shared]
        stayed = sources >= 0
        places[rows] = self.count - 1 - sources
        places[rows[stayed]] = self.places[sources[stayed]]
        used, position = np.unique(places[places >= len(self.base)], return_inverse=True)
        patch = TokenVectors.joined((self.patch, texts), used - len(self.base))
        places[places >= len(self.base)] = len(self.base) + position
        table = TokenTable(self.base, patch, places)
        if len(patch) * _LOOSE_SHARE > len(self.base):
            return TokenTable.of(table.whole())
        return table


def _starts(lengths: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Where texts of such lengths begin, and where the last one ends, shape (n + 1,)."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


@runtime_checkable
class TokenEncoder(Encoder, Protocol):
    """An encoder that also returns the vectors of a text's tokens."""

    @property
    def token_dim(self) -> int:
        """Length of a token's vector; 0 where the model has none."""
        ...

    def encode_with_tokens(
        self, texts: Sequence[str], *, query: bool = False, progress: Advance | None = None
    ) -> tuple[NDArray[np.float32], TokenVectors]:
        """The result of `encode` and the texts' tokens, from one pass.

        Args:
            texts: as for `encode`.
            query: as for `encode`.
            progress: as for `encode`.
        """
        ...


def gives_tokens(encoder: Encoder) -> TypeGuard[TokenEncoder]:
    """Whether an encoder returns the vectors of tokens."""
    return isinstance(encoder, TokenEncoder) and encoder.token_dim > 0


def encoded(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    query: bool = False,
    tokens: bool = True,
    progress: Advance | None = None,
) -> tuple[NDArray[np.float32], TokenVectors | None]:
    """The vectors of texts, and of their tokens if the encoder returns them.

    Args:
        encoder: the encoder.
        texts: as for `encode`.
        query: as for `encode`.
        tokens: whether the vectors of tokens are wanted.
        progress: as for `encode`.
    """
    if tokens and gives_tokens(encoder):
        return encoder.encode_with_tokens(texts, query=query, progress=progress)
    return encoder.encode(texts, query=query, progress=progress), None
