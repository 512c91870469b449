"""Approximate nearest neighbours on hnswlib, for catalogs beyond the reach of an exact scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...errors import MissingExtraError, StoreError
from ...settings import PartSettings
from ..query import Ranking
from .exact import ExactIndex

_FILE = "hnsw.bin"
# Masks admitting fewer than this share of the rows are searched exactly: a graph walk would spend
# its time on rows it may not return.
_EXACT_SHARE = 8


class HnswSettings(PartSettings):
    """Settings of the graph.

    Args:
        links: links of a row in the graph (M); more find more and take more memory.
        build_ef: candidates weighed while a row is linked; more find more and build slower.
        search_ef: candidates weighed in a search; more find more and search slower.
    """

    search_only: ClassVar[frozenset[str]] = frozenset({"search_ef"})

    links: int = Field(default=16, ge=2, le=1_000)
    build_ef: int = Field(default=200, ge=1, le=100_000)
    search_ef: int = Field(default=200, ge=1, le=100_000)


class HnswIndex:
    """A navigable small-world graph (Malkov and Yashunin 2016).

    A mask is honoured by reading on past rows that are not admitted; where that would take most
    of the graph, by an exact search of the admitted rows.

    Args:
        vectors: L2-normalised vectors, shape (n, dim).
        graph: the `hnswlib.Index` over them.
        settings: settings of the graph.
    """

    Settings = HnswSettings

    def __init__(
        self,
        vectors: NDArray[np.float32],
        graph: Any,
        settings: HnswSettings,
    ) -> None:
        self._vectors = vectors
        self._settings = settings
        self._graph = graph
        self._exact = ExactIndex(vectors)

    @classmethod
    def build(cls, vectors: NDArray[np.float32], **settings: int) -> Self:
        """Index L2-normalised vectors, shape (n, dim); for the settings see `HnswSettings`."""
        chosen = HnswSettings(**settings)
        graph = _new_graph(vectors.shape[1])
        graph.init_index(
            max_elements=max(1, len(vectors)),
            M=chosen.links,
            ef_construction=chosen.build_ef,
            random_seed=0,
        )
        if len(vectors):
            # One thread: the graph, and so every answer, is the same for the same vectors.
            graph.add_items(vectors, np.arange(len(vectors)), num_threads=1)
        return cls(vectors, graph, chosen)

    @classmethod
    def load(cls, folder: Path, vectors: NDArray[np.float32], **settings: int) -> Self:
        """Read a saved graph over the saved vectors."""
        graph = _new_graph(vectors.shape[1])
        try:
            graph.load_index(str(folder / _FILE), max_elements=max(1, len(vectors)))
        except RuntimeError as error:
            raise StoreError(f"{folder / _FILE}: not a readable graph ({error})") from error
        if graph.get_current_count() != len(vectors):
            raise StoreError(
                f"{folder / _FILE}: holds {graph.get_current_count()} rows, {len(vectors)} expected"
            )
        return cls(vectors, graph, HnswSettings(**settings))

    def save(self, folder: Path) -> None:
        """Write the graph into an existing folder.

        Raises:
            OSError: the disk refuses.
        """
        path = folder / _FILE
        try:
            self._graph.save_index(str(path))
        except RuntimeError as error:
            raise OSError(f"{path}: hnswlib cannot write: {error}") from error
        # hnswlib does not say so where a full disk cuts its file short.
        size = self._graph.index_file_size()
        if path.stat().st_size != size:
            raise OSError(f"{path}: {path.stat().st_size} of {size} bytes written; no room left?")

    def search(
        self, vector: NDArray[np.float32], depth: int, allowed: NDArray[np.bool_] | None = None
    ) -> Ranking:
        """About the `depth` nearest rows inside the mask."""
        total = len(self._vectors)
        if depth < 1 or not total:
            return Ranking.empty()
        admitted = total if allowed is None else int(np.count_nonzero(allowed))
        count = min(depth, admitted)
        if admitted * _EXACT_SHARE < total or count * 2 > total:
            return self._exact.search(vector, depth, allowed)
        limit = count
        if admitted < total:
            # As many as hold enough admitted rows if these are spread evenly, and a reserve.
            limit = min(total, count * total // admitted + count)
        while limit * 2 <= total:
            rows = self._nearest(vector, limit)
            if allowed is not None:
                rows = rows[allowed[rows]]
            if len(rows) >= count:
                scores = np.einsum("ij,j->i", self._vectors[rows], vector)
                return Ranking.best(rows, scores, depth)
            limit *= 2
        return self._exact.search(vector, depth, allowed)

    def _nearest(self, vector: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
        # ef is state of the graph: only ever raised, so that concurrent searches cannot harm.
        if self._graph.ef < max(self._settings.search_ef, limit + 1):
            self._graph.set_ef(max(self._settings.search_ef, 2 * limit))
        labels, _ = self._graph.knn_query(vector, k=limit, num_threads=1)
        rows: NDArray[np.int64] = labels[0].astype(np.int64)
        return rows


def _new_graph(dim: int) -> Any:
    try:
        import hnswlib
    except ImportError as error:
        raise MissingExtraError("the hnswlib dense index", "hnsw") from error
    graph = hnswlib.Index(space="ip", dim=dim)
    graph.set_num_threads(1)
    return graph
