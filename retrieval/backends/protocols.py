"""Protocols for backends, retrievers and fusions of your own.

A part may have settings, see `shortlist.settings.PartSettings`. An index gets them as further
keyword arguments of `build` and `load`, a fusion in its constructor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..query import Query, Ranking


class LexicalSearch(Protocol):
    """Ranks documents by the terms they share with a query: an index as searches use it."""

    def save(self, folder: Path) -> None: ...
    def search(
        self, text: str, depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking: ...


class LexicalIndex(LexicalSearch, Protocol):
    """An index of documents that a process builds and loads.

    `build` gets a mapping of field name to raw text for each row. `save` and `load` write and open
    a folder. `search` returns only rows inside the mask, shape (n,). `load` may return None if the
    folder cannot be opened in place, for example because it is read-only. The index is then built
    again.
    """

    @classmethod
    def build(cls, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]) -> Self: ...
    @classmethod
    def load(cls, folder: Path, boosts: Mapping[str, float]) -> Self | None: ...


class DenseSearch(Protocol):
    """Ranks L2-normalised vectors, shape (n, dim), by their inner product with a query vector."""

    def save(self, folder: Path) -> None: ...
    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking: ...


class DenseIndex(DenseSearch, Protocol):
    """An index of vectors that a process builds and loads.

    The store saves the vectors themselves. `save` and `load` are for anything else.
    """

    @classmethod
    def build(cls, vectors: NDArray[np.float32]) -> Self: ...
    @classmethod
    def load(cls, folder: Path, vectors: NDArray[np.float32]) -> Self: ...


class JointSearch(Protocol):
    """Searches several stages at once, which costs less than one after the other."""

    def search(self, query: Query, stages: Sequence[str], depth: int) -> Mapping[str, Ranking]: ...


class Retriever(Protocol):
    """A stage that finds candidates for a query, inside its mask.

    `prepare` adds what the search needs besides the text (a vector), so that its time is measured
    separately.
    """

    def prepare(self, query: Query) -> Query: ...
    def search(self, query: Query, depth: int) -> Ranking: ...


@runtime_checkable
class Fusion(Protocol):
    """A stage that merges several rankings into one."""

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking: ...
