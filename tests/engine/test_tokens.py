"""Token vectors on their way: encoded once, carried through updates, saved, read by reranking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shortlist import Engine, Tool
from shortlist.catalog.document import embedding_text
from shortlist.errors import StoreError
from shortlist.models import TokenTable, TokenVectors
from shortlist.retrieval import features
from shortlist.retrieval.features import late_interaction
from shortlist.retrieval.vectors import Vectors, encode_tools

from .conftest import Models
from .fakes import TOKEN_DIM, TokenBagEncoder, make_tools

QUERIES = ("create an issue", "share a page", "jira/create_issue", "list", "")


@pytest.fixture
def encoder(models: Models) -> TokenBagEncoder:
    """The encoder that is loaded as the bundled one."""
    known = TokenBagEncoder()
    models.encoders["bundled"] = known
    return known


def make_engine(tools: list[Tool], **settings_: Any) -> Engine:
    return Engine.from_tools(tools, reranker="features", **settings_)


def open_engine(folder: Path, tools: list[Tool] | None = None) -> Engine:
    return Engine.open(folder, tools, reranker="features")


def vectors_of(engine: Engine) -> Vectors:
    vectors = engine._index.vectors
    assert vectors is not None
    return vectors


def vectors_by_id(engine: Engine) -> Vectors:
    """The vectors in order of tool id, whatever the rows are."""
    vectors, index = vectors_of(engine), engine._index
    rows = index.by_id(np.ones(len(index.tools), np.bool_))
    tokens = tokens_of(vectors).take(rows)
    keys = tuple(vectors.keys[row] for row in rows)
    return Vectors(vectors.values[rows], keys, vectors.model, tokens)


def tokens_of(vectors: Vectors) -> TokenVectors:
    assert vectors.tokens is not None
    return TokenTable.of(vectors.tokens).whole()


def assert_same_tokens(one: Vectors, other: Vectors) -> None:
    found, expected = tokens_of(one), tokens_of(other)
    np.testing.assert_array_equal(found.starts, expected.starts)
    np.testing.assert_array_equal(found.vectors, expected.vectors)
    np.testing.assert_array_equal(found.weights, expected.weights)


def answers(engine: Engine) -> list[Any]:
    return [
        [(hit.id, hit.score) for hit in engine.search(query, tier="rerank", k=20)]
        for query in QUERIES
    ]


def test_a_row_has_the_tokens_of_its_tools_text(encoder: TokenBagEncoder) -> None:
    engine = make_engine(make_tools(20))
    tokens = tokens_of(vectors_of(engine))
    assert (len(tokens), tokens.dim) == (20, TOKEN_DIM)
    for row, tool in enumerate(engine._index.tools):
        alone = encoder.encode_with_tokens([embedding_text(tool)])[1]
        found = tokens.take([row])
        np.testing.assert_array_equal(found.vectors, alone.vectors)
        np.testing.assert_array_equal(found.weights, alone.weights)


def test_an_encoder_without_tokens_leaves_none(models: Models) -> None:
    engine = make_engine(make_tools(20))
    assert vectors_of(engine).tokens is None
    assert engine.search("create an issue", tier="rerank").hits


@pytest.mark.parametrize("settings_", [{"reranker": "overlap"}, {"tiers": ["hybrid", "lexical"]}])
def test_they_are_left_out_where_no_tier_reads_them(
    encoder: TokenBagEncoder, settings_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(TokenBagEncoder, "_tokens")
    engine = Engine.from_tools(make_tools(20), **settings_)
    assert vectors_of(engine).tokens is None
    for tier in engine.tiers:
        assert engine.search("create an issue", tier=tier).hits
        assert engine.view().search_many(["create an issue"], tier=tier)[0].hits


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
    def test_tokens_are_those_of_an_engine_built_anew(
        self, encoder: TokenBagEncoder, after: list[Tool], tmp_path: Path
    ) -> None:
        engine = make_engine(make_tools(40))
        engine.update(after)
        fresh = make_engine(after)
        assert_same_tokens(vectors_by_id(engine), vectors_of(fresh))
        np.testing.assert_array_equal(vectors_by_id(engine).values, vectors_of(fresh).values)
        assert vectors_by_id(engine).keys == vectors_of(fresh).keys
        # BM25 may still count documents that are gone; what is saved is as if built anew.
        engine.save(tmp_path)
        assert answers(open_engine(tmp_path)) == answers(fresh)

    def test_the_same_tools_keep_their_tokens(self, encoder: TokenBagEncoder) -> None:
        engine = make_engine(make_tools(40))
        engine.update(list(reversed(make_tools(40))))
        assert engine.encoded == 0
        assert_same_tokens(vectors_of(engine), vectors_of(make_engine(make_tools(40))))

    @settings(deadline=None, max_examples=30)
    @given(steps=st.lists(st.sets(st.integers(0, 20), max_size=12), min_size=1, max_size=4))
    def test_any_series_of_updates_keeps_them_in_step(self, steps: list[set[int]]) -> None:
        tools, encoder, held = make_tools(21), TokenBagEncoder(), None
        for step in steps:
            chosen = [tools[number] for number in sorted(step)]
            held, encoded = encode_tools(encoder, chosen, held)
            fresh, _ = encode_tools(TokenBagEncoder(), chosen)
            assert encoded <= len(chosen)
            assert_same_tokens(held, fresh)

    def test_another_encoder_does_not_keep_them(
        self, encoder: TokenBagEncoder, tmp_path: Path
    ) -> None:
        make_engine(make_tools(10)).save(tmp_path)
        opened = Engine.open(tmp_path, reranker="features", encoder="other")
        assert vectors_of(opened).tokens is None
        assert opened.encoded == 10


class TestSaved:
    @pytest.mark.parametrize("count", [0, 30])
    def test_they_are_opened_and_nothing_is_encoded(
        self, encoder: TokenBagEncoder, tmp_path: Path, count: int
    ) -> None:
        engine = make_engine(make_tools(count))
        engine.save(tmp_path)
        encoder.tools.clear()
        opened = open_engine(tmp_path)
        assert (opened.encoded, encoder.tools) == (0, [])
        assert_same_tokens(vectors_of(opened), vectors_of(engine))
        assert answers(opened) == answers(engine)

    def test_an_index_saved_without_them_is_encoded_anew(
        self, encoder: TokenBagEncoder, tmp_path: Path
    ) -> None:
        Engine.from_tools(make_tools(30), reranker="overlap").save(tmp_path)
        fresh = make_engine(make_tools(30))
        for tools in (None, make_tools(30)):
            opened = open_engine(tmp_path, tools)
            assert opened.encoded == 30
            assert_same_tokens(vectors_of(opened), vectors_of(fresh))
            assert answers(opened) == answers(fresh)

    def test_an_index_saved_with_them_serves_without(
        self, encoder: TokenBagEncoder, tmp_path: Path
    ) -> None:
        make_engine(make_tools(30)).save(tmp_path)
        for tools, encoded in ((None, 0), (make_tools(33), 3)):
            opened = Engine.open(tmp_path, tools, reranker="overlap")
            assert opened.encoded == encoded
            assert opened.search("create an issue", tier="rerank").hits

    def test_an_opened_index_is_updated_and_saved_again(
        self, encoder: TokenBagEncoder, tmp_path: Path
    ) -> None:
        make_engine(make_tools(30)).save(tmp_path)
        after = [*make_tools(40)[5:], Tool("zip", "x", "Zip it")]
        opened = open_engine(tmp_path, after)
        assert opened.encoded == 11
        opened.save(tmp_path)
        fresh = make_engine(after)
        for engine in (opened, open_engine(tmp_path)):
            assert_same_tokens(vectors_of(engine), vectors_of(fresh))
            assert answers(engine) == answers(fresh)

    @pytest.fixture
    def version(self, encoder: TokenBagEncoder, tmp_path: Path) -> Path:
        make_engine(make_tools(6)).save(tmp_path)
        return tmp_path / (tmp_path / "CURRENT").read_text()

    @pytest.mark.parametrize("name", ["vectors", "weights", "starts"])
    def test_a_file_that_lacks_or_is_cut_is_refused(self, version: Path, name: str) -> None:
        path = version / "tokens" / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(StoreError, match=f"{name}.npy"):
            open_engine(version.parent)
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(StoreError, match=f"{name}.npy"):
            open_engine(version.parent)
        path.unlink()
        with pytest.raises(StoreError, match=f"{name}.npy"):
            open_engine(version.parent)

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("starts", lambda starts: starts[:-1]),
            ("starts", lambda starts: np.append(starts, starts[-1])),
            ("starts", lambda starts: np.append(starts[:-1], starts[-1] + 1)),
            ("starts", lambda starts: np.append(starts[:-1], starts[-1] - 1)),
            ("starts", lambda starts: starts[:0]),
            ("starts", lambda starts: starts[-1]),
            ("starts", lambda starts: np.concatenate([[1], starts[1:]])),
            ("starts", lambda starts: np.concatenate([starts[-2:-1], starts[1:]])),
            ("starts", lambda starts: np.concatenate([starts[:2], starts[1:2], starts[3:]])),
            ("starts", lambda starts: starts.astype(np.float64)),
            ("weights", lambda weights: weights[:-1]),
            ("weights", lambda weights: np.append(weights, np.float32(0))),
            ("vectors", lambda vectors: vectors[:-1]),
            ("vectors", lambda vectors: vectors[:, 0]),
        ],
        ids=[
            "a text less",
            "a text more",
            "past the end",
            "before the end",
            "no starts",
            "no row of starts",
            "not from 0",
            "backwards",
            "a text without tokens",
            "starts of floats",
            "a weight less",
            "a weight more",
            "a vector less",
            "no vectors",
        ],
    )
    def test_arrays_that_do_not_belong_together_are_refused(
        self, version: Path, name: str, change: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> None:
        path = version / "tokens" / f"{name}.npy"
        np.save(path, change(np.load(path)))
        manifest = json.loads((version / "manifest.json").read_text())
        content = path.read_bytes()
        manifest["files"][f"tokens/{name}.npy"] = {
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        (version / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(StoreError, match="damaged"):
            open_engine(version.parent)


class TestReranking:
    #: The first has no word of the request and means the same, the second has half of its words.
    TOOLS = (
        Tool("stripes", None, "crowd"),
        Tool("zebra", None, "invoice ledger"),
        *make_tools(5),
    )
    MEANINGS = {"stripes": "zebra", "crowd": "herd"}  # noqa: RUF012

    @pytest.fixture
    def engine(self, models: Models) -> Engine:
        models.encoders["bundled"] = TokenBagEncoder(meanings=self.MEANINGS)
        return make_engine(list(self.TOOLS))

    @pytest.fixture
    def scores(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[float], dict[str, float]]:
        """Hits for a request and their scores, best first, by the weight of `late`."""

        def ranked(weight: float) -> dict[str, float]:
            monkeypatch.setitem(features.WEIGHTS, "late", weight)
            return {hit.id: hit.score for hit in engine.search("zebra herd", tier="rerank", k=9)}

        return ranked

    def test_tokens_lift_a_tool_that_means_the_same(
        self, scores: Callable[[float], dict[str, float]]
    ) -> None:
        assert next(iter(scores(0.0))) == "zebra"
        assert next(iter(scores(10.0))) == "stripes"

    def test_a_score_rises_by_the_weight_times_the_late_interaction(
        self, engine: Engine, scores: Callable[[float], dict[str, float]]
    ) -> None:
        encoder = engine._index.encoder
        assert isinstance(encoder, TokenBagEncoder)
        [_, asked] = encoder.encode_with_tokens(["zebra herd"], query=True)
        late = late_interaction(asked, tokens_of(vectors_of(engine)))
        without, with_tokens = scores(0.0), scores(2.0)
        assert len(without) == len(late) == 7
        for row, tool in enumerate(engine._index.tools):
            rise = with_tokens[tool.id] - without[tool.id]
            assert rise == pytest.approx(2 * late[row], abs=1e-5)

    @pytest.mark.parametrize("tier", ["embed", "hybrid", "rerank"])
    def test_many_requests_are_answered_as_each_alone(
        self, encoder: TokenBagEncoder, tier: str
    ) -> None:
        engine = make_engine(make_tools(60))
        encoder.queries.clear()
        together = engine.view().search_many(QUERIES, tier=tier, k=20)
        assert encoder.queries == list(QUERIES)
        for query, answer in zip(QUERIES, together, strict=True):
            alone = engine.search(query, tier=tier, k=20)
            assert [(hit.id, hit.score) for hit in answer] == [(hit.id, hit.score) for hit in alone]

    def test_a_request_is_encoded_once(self, encoder: TokenBagEncoder) -> None:
        make_engine(make_tools(60)).search("create an issue", tier="rerank")
        assert encoder.queries == ["create an issue"]


@pytest.mark.parametrize(("tier", "reads"), [("embed", False), ("hybrid", False), ("rerank", True)])
def test_only_a_tier_that_reranks_has_a_requests_tokens_encoded(
    encoder: TokenBagEncoder, monkeypatch: pytest.MonkeyPatch, tier: str, reads: bool
) -> None:
    engine = make_engine(make_tools())
    asked: list[str] = []
    plain = TokenBagEncoder.encode_with_tokens

    def noted(self: TokenBagEncoder, texts: Any, **settings_: Any) -> Any:
        asked.extend(texts)
        return plain(self, texts, **settings_)

    monkeypatch.setattr(TokenBagEncoder, "encode_with_tokens", noted)
    engine.search("create an issue", tier=tier)
    engine.view().search_many(["share a page"], tier=tier)
    engine.view().explain("list the pages", make_tools()[0].id, tier=tier)
    assert asked == (["create an issue", "share a page", "list the pages"] if reads else [])
