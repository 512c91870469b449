"""What is particular to the graph: its extra, its files, its size against exact search."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from shortlist.errors import MissingExtraError, StoreError
from shortlist.retrieval.backends import auto
from shortlist.retrieval.backends.auto import AutoIndex
from shortlist.retrieval.backends.exact import ExactIndex
from shortlist.retrieval.backends.hnsw import HnswIndex

from .vectors import assert_ranked, clustered

VECTORS = clustered(4_000, 32)
QUERIES = clustered(60, 32, seed=9)


@pytest.fixture(scope="module")
def graph() -> HnswIndex:
    return HnswIndex.build(VECTORS)


@pytest.mark.parametrize("depth", [1, 10, 100])
@pytest.mark.parametrize("share", [None, 0.5, 0.15])
def test_recall_against_exact(graph: HnswIndex, depth: int, share: float | None) -> None:
    exact = ExactIndex.build(VECTORS)
    mask = None if share is None else np.random.default_rng(depth).random(len(VECTORS)) < share
    shared = 0
    for query in QUERIES:
        found = graph.search(query, depth, mask)
        assert_ranked(found, depth, mask)
        assert len(found) == depth
        shared += len(
            set(found.rows.tolist()) & set(exact.search(query, depth, mask).rows.tolist())
        )
    assert shared >= 0.95 * depth * len(QUERIES)


def test_a_mask_far_from_the_query_still_fills_the_answer(graph: HnswIndex) -> None:
    # The admitted half are the rows least like the request: a walk alone would meet none of them.
    query = QUERIES[0]
    far = np.argsort(VECTORS @ query)[: len(VECTORS) // 2]
    mask = np.zeros(len(VECTORS), np.bool_)
    mask[far] = True
    found = graph.search(query, 10, mask)
    assert found.rows.tolist() == ExactIndex.build(VECTORS).search(query, 10, mask).rows.tolist()


def test_searches_of_many_depths_at_once(graph: HnswIndex) -> None:
    expected = {depth: graph.search(QUERIES[1], depth).rows.tolist() for depth in (1, 700, 1_500)}
    wrong: list[int] = []

    def search(depth: int) -> None:
        for _ in range(10):
            found = graph.search(QUERIES[1], depth)
            if len(found) != depth or found.rows[0] != expected[depth][0]:
                wrong.append(depth)

    threads = [Thread(target=search, args=(depth,)) for depth in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_missing_extra_names_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[hnsw\]'"):
        HnswIndex.build(VECTORS[:10])


@pytest.mark.parametrize("content", [b"", b"not a graph", bytes(4_000)])
def test_a_damaged_file_is_a_store_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hnsw.bin").write_bytes(content)
    with pytest.raises(StoreError, match=r"hnsw\.bin"):
        HnswIndex.load(tmp_path, VECTORS)


def test_a_missing_file_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"hnsw\.bin"):
        HnswIndex.load(tmp_path, VECTORS)


def test_a_graph_of_other_vectors_is_a_store_error(tmp_path: Path) -> None:
    HnswIndex.build(VECTORS[:20]).save(tmp_path)
    with pytest.raises(StoreError, match="20 rows, 30 expected"):
        HnswIndex.load(tmp_path, VECTORS[:30])


class TestAuto:
    def test_few_vectors_are_searched_exactly(self) -> None:
        assert isinstance(AutoIndex.build(VECTORS), ExactIndex)

    def test_many_vectors_get_a_graph(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(auto, "EXACT_ROWS", 100)
        built = AutoIndex.build(VECTORS[:101])
        assert isinstance(built, HnswIndex)
        built.save(tmp_path)
        assert isinstance(AutoIndex.load(tmp_path, VECTORS[:101]), HnswIndex)
        assert isinstance(AutoIndex.build(VECTORS[:100]), ExactIndex)

    def test_many_vectors_without_the_extra_are_searched_exactly(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(auto, "EXACT_ROWS", 100)
        monkeypatch.setitem(sys.modules, "hnswlib", None)
        assert isinstance(AutoIndex.build(VECTORS[:200]), ExactIndex)
