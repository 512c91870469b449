"""What a backend, a retriever or a fusion of your own must offer.

A part may have settings, see `shortlist.settings.PartSettings`. An index takes them as keyword
arguments of `build` and `load` beside those listed here, a fusion in its constructor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .query import Query, Ranking

Content = TypeVar("Content", contravariant=True)


class LexicalIndex(Protocol):
    """Ranks documents by the terms they share with a query.

    `build` takes field name to raw text for each row and writes nothing outside a folder of its
    own; `save` and `load` write and open a folder; `search` stays inside the mask, shape (n,);
    `weight` is the inverse document frequency of an analysed term. `load` may give None where the
    folder cannot be opened in place, as a read-only one; the index is then built anew.

    A backend may also offer `updated(documents, rows) -> Self | None`, see `Updatable`.
    """

    @classmethod
    def build(cls, documents: Sequence[Mapping[str, str]], boosts: Mapping[str, float]) -> Self: ...
    @classmethod
    def load(cls, folder: Path, boosts: Mapping[str, float]) -> Self | None: ...
    def weight(self, term: str) -> float: ...
    def save(self, folder: Path) -> None: ...
    def search(
        self, text: str, depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking: ...


class DenseIndex(Protocol):
    """Ranks L2-normalised vectors, shape (n, dim), by their inner product with a query vector.

    The vectors themselves are saved by the store; `save` and `load` are for what is beside them.

    A backend may also offer `updated(vectors, rows) -> Self | None`, see `Updatable`.
    """

    @classmethod
    def build(cls, vectors: NDArray[np.float32]) -> Self: ...
    @classmethod
    def load(cls, folder: Path, vectors: NDArray[np.float32]) -> Self: ...
    def save(self, folder: Path) -> None: ...
    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking: ...


class Updatable(Protocol[Content]):
    """A lexical or dense index that makes the next version's index without building it anew."""

    def updated(self, content: Content, rows: NDArray[np.int64]) -> Self | None:
        """An index of other content, of which only some rows differ; this one stays as it is.

        Searches of this index may run meanwhile and later. The vectors of the other rows are equal;
        scores of a lexical index may count documents that are gone, until it is built anew.

        Args:
            content: all documents or vectors by row, as for `build`.
            rows: rows that differ, ascending, shape (m,); all that this index lacks are among them.
                Rows that this index has and the content lacks are gone.

        Returns:
            The index; or None to have it built anew, as where too much has changed.
        """
        ...


class Retriever(Protocol):
    """A stage that finds candidates for a query, honouring its mask.

    `prepare` adds what the search needs beyond the text (a vector), so that it is timed apart.
    """

    def prepare(self, query: Query) -> Query: ...
    def search(self, query: Query, depth: int) -> Ranking: ...


class Fusion(Protocol):
    """A stage that makes one ranking of several."""

    def fuse(self, rankings: Mapping[str, Ranking]) -> Ranking: ...
