"""Approximate nearest neighbours on hnswlib, for catalogs beyond the reach of an exact scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..errors import MissingExtraError, StoreError
from ..settings import PartSettings
from .exact import ExactIndex
from .query import Ranking

_FILE = "hnsw.bin"
# Masks admitting fewer than this share of the rows are searched exactly: a graph walk would spend
# its time on rows it may not return.
_EXACT_SHARE = 8
# Share of the graph's rows that may change before it is built anew.
_CHANGED_SHARE = 10


class HnswSettings(PartSettings):
    """Settings of the graph.

    Args:
        links: links of a row in the graph (M); more find more and take more memory.
        build_ef: candidates weighed while a row is linked; more find more and build slower.
        search_ef: candidates weighed in a search; more find more and search slower.
    """

    search_time: ClassVar[frozenset[str]] = frozenset({"search_ef"})

    links: int = Field(default=16, ge=2, le=1_000)
    build_ef: int = Field(default=200, ge=1, le=100_000)
    search_ef: int = Field(default=200, ge=1, le=100_000)


class HnswIndex:
    """A navigable small-world graph (Malkov and Yashunin 2016).

    A mask is honoured by reading on past rows that are not admitted; where that would take most
    of the graph, by an exact search of the admitted rows.

    A small change leaves the graph as it is: rows that it holds with an old vector are passed over,
    and the changed rows are compared one by one.
    """

    Settings = HnswSettings

    def __init__(
        self,
        vectors: NDArray[np.float32],
        graph: Any,
        settings: HnswSettings,
        exact: ExactIndex | None = None,
        changed: NDArray[np.int64] | None = None,
    ) -> None:
        self._vectors = vectors
        self._settings = settings
        self._graph = graph
        self._exact = ExactIndex(vectors) if exact is None else exact
        #: Rows of which the graph holds no vector or an old one, ascending.
        self._changed = np.empty(0, np.int64) if changed is None else changed
        self._nodes = int(graph.get_current_count())
        #: Whether the graph's vector of a node is that of the row of the same number.
        self._valid = np.arange(self._nodes) < len(vectors)
        self._valid[self._changed[self._changed < self._nodes]] = False

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

    def updated(self, vectors: NDArray[np.float32], rows: NDArray[np.int64]) -> Self | None:
        """An index of other vectors, of which only some rows differ; see `Updatable`.

        None where so much has changed since the graph was built that searches would suffer.
        """
        changed = np.union1d(self._changed, rows)
        changed = changed[changed < len(vectors)]
        lost = self._nodes - min(self._nodes, len(vectors))
        if (len(changed) + lost) * _CHANGED_SHARE > self._nodes:
            return None
        exact = self._exact.updated(vectors, rows)
        return type(self)(vectors, self._graph, self._settings, exact, changed)

    def save(self, folder: Path) -> None:
        """Write the graph into an existing folder, built anew if rows have changed since.

        Raises:
            OSError: the disk refuses.
        """
        if not self._valid.all() or len(self._changed):
            type(self).build(self._vectors, **dict(self._settings)).save(folder)
            return
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
        wanted = min(depth, admitted)
        if admitted * _EXACT_SHARE < total or wanted * 2 > total:
            return self._exact.search(vector, depth, allowed)
        limit = min(total, wanted * total // admitted + (0 if admitted == total else wanted))
        # Nodes with an old vector take places of the answer from others.
        limit += int(limit * np.count_nonzero(~self._valid) / max(1, self._nodes))
        while limit * 2 <= self._nodes:
            rows = self._nearest(vector, limit)
            rows = rows[self._valid[rows]]
            complete = len(rows) if allowed is None else int(np.count_nonzero(allowed[rows]))
            rows = np.concatenate([rows, self._changed])
            if allowed is not None:
                rows = rows[allowed[rows]]
            if complete >= wanted:
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
