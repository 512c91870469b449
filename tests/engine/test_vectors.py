"""Vectors on their way: encoded once, carried through updates, saved, read by searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shortlist import Engine, Tool
from shortlist.catalog.tool_document import embedding_text
from shortlist.retrieval.store.vectors import Vectors

from .conftest import Models
from .fakes import BagEncoder, make_tools

QUERIES = ("create an issue", "share a page", "jira/create_issue", "list", "the")


@pytest.fixture
def encoder(models: Models) -> BagEncoder:
    """The encoder that is loaded as the bundled one."""
    return models.encoder


def make_engine(tools: list[Tool]) -> Engine:
    return Engine.from_tools(tools, reranker="overlap")


def open_engine(folder: Path, tools: list[Tool] | None = None, **settings_: Any) -> Engine:
    return Engine.open(folder, tools, reranker="overlap", **settings_)


def vectors_of(engine: Engine) -> Vectors:
    vectors = engine._version.index.vectors
    assert vectors is not None
    return vectors


def assert_same_vectors(vectors: Vectors, expected: Vectors) -> None:
    np.testing.assert_array_equal(vectors.values, expected.values)
    assert (vectors.keys, vectors.encoder_fingerprint) == (
        expected.keys,
        expected.encoder_fingerprint,
    )


def answers(engine: Engine) -> list[Any]:
    return [
        [(hit.id, hit.score) for hit in engine.search(query, tier="rerank", k=20)]
        for query in QUERIES
    ]


def test_a_row_has_the_vector_of_its_tools_text(encoder: BagEncoder) -> None:
    engine = make_engine(make_tools(20))
    values = vectors_of(engine).values
    assert len(values) == 20
    for row, tool in enumerate(engine._version.index.tools):
        np.testing.assert_array_equal(values[row], encoder.encode([embedding_text(tool)])[0])


class TestUpdates:
    CHANGED = Tool("create_issue", "github", "Now in other words")

    @pytest.mark.parametrize(
        "after",
        [
            make_tools(50),
            make_tools(40)[:20],
            make_tools(40)[10:30],
            [*make_tools(40)[1:], CHANGED],
            [*make_tools(60)[20:], CHANGED],
            [*make_tools(3), *(Tool("copy", "s", "Copy it", id=str(i)) for i in range(4))],
            [],
        ],
        ids=["added", "last removed", "removed", "changed", "all three", "twins", "nothing"],
    )
    def test_vectors_are_those_of_an_engine_built_anew(
        self, encoder: BagEncoder, after: list[Tool], tmp_path: Path
    ) -> None:
        engine = make_engine(make_tools(40))
        engine.replace(after)
        fresh = make_engine(after)
        assert_same_vectors(vectors_of(engine), vectors_of(fresh))
        assert answers(engine) == answers(fresh)
        engine.save(tmp_path)
        assert answers(open_engine(tmp_path)) == answers(fresh)

    def test_the_same_tools_keep_their_vectors(self, encoder: BagEncoder) -> None:
        engine = make_engine(make_tools(40))
        engine.replace(list(reversed(make_tools(40))))
        assert engine.build_progress.newly_encoded == 0
        assert_same_vectors(vectors_of(engine), vectors_of(make_engine(make_tools(40))))


class TestSaved:
    @pytest.mark.parametrize("count", [0, 30])
    def test_they_are_opened_and_nothing_is_encoded(
        self, encoder: BagEncoder, tmp_path: Path, count: int
    ) -> None:
        engine = make_engine(make_tools(count))
        engine.save(tmp_path)
        encoder.tools.clear()
        opened = open_engine(tmp_path)
        assert (opened.build_progress.newly_encoded, encoder.tools) == (0, [])
        assert_same_vectors(vectors_of(opened), vectors_of(engine))
        assert answers(opened) == answers(engine)

    def test_an_opened_index_is_updated_and_saved_again(
        self, encoder: BagEncoder, tmp_path: Path
    ) -> None:
        make_engine(make_tools(30)).save(tmp_path)
        after = [*make_tools(40)[5:], Tool("zip", "x", "Zip it")]
        opened = open_engine(tmp_path, after)
        assert opened.build_progress.newly_encoded == 11
        opened.save(tmp_path)
        fresh = make_engine(after)
        for engine in (opened, open_engine(tmp_path)):
            assert_same_vectors(vectors_of(engine), vectors_of(fresh))
            assert answers(engine) == answers(fresh)


class TestQueries:
    def test_a_request_is_encoded_once(self, encoder: BagEncoder) -> None:
        make_engine(make_tools(60)).search("create an issue", tier="rerank")
        assert encoder.queries == ["create an issue"]


def test_a_search_among_some_tools_encodes_nothing(engine: Engine, encoder: BagEncoder) -> None:
    view = engine.view()
    selection = view.search("create an issue", tier="hybrid", k=3)
    encoder.queries.clear()
    others = [tool.id for tool in view.tools() if tool.id not in selection.ids][:20]
    among = view.search_among(others, selection, k=5)
    assert encoder.queries == []
    assert among.ids == view.limited_to(others).search("create an issue", tier="hybrid", k=5).ids
    assert (among.query, among.tier) == ("create an issue", "hybrid")
