from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from shortlist.errors import ModelError
from shortlist.models import Reranker, load_reranker

HERE = Path(__file__).parent
FIXTURE = HERE / "tiny_reranker"


@pytest.fixture(scope="module")
def expected() -> dict:
    return json.loads((FIXTURE / "expected.json").read_text())


def fp32_only(folder: Path, source: Path = FIXTURE) -> Path:
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("model_quantized.onnx"))
    return folder


def assert_close_to_framework(folder: Path, scores: list[float], query: str, texts: list) -> None:
    quantized = load_reranker(str(folder)).score(query, texts)
    spread = max(scores) - min(scores)
    np.testing.assert_allclose(quantized, scores, atol=0.1 * spread)
    assert not np.allclose(quantized, scores, atol=1e-6)  # the quantised file was taken


def test_fp32_scores_are_the_frameworks(tmp_path: Path, expected: dict) -> None:
    reranker = load_reranker(str(fp32_only(tmp_path / "model")))
    scores = reranker.score(expected["query"], expected["texts"])
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected["scores"], atol=1e-4)


def test_quantized_file_is_taken_and_ranks_alike(expected: dict) -> None:
    assert isinstance(load_reranker(str(FIXTURE)), Reranker)
    assert_close_to_framework(FIXTURE, expected["scores"], expected["query"], expected["texts"])


def test_freshly_exported_model_scores_as_the_framework(tmp_path: Path) -> None:
    for module in ("torch", "transformers", "onnx"):
        pytest.importorskip(module)
    recipe = runpy.run_path(str(HERE / "build_tiny_reranker.py"))
    query, texts = recipe["QUERY"], recipe["TEXTS"]
    scores = recipe["build"](tmp_path / "model", seed=3)
    exact = load_reranker(str(fp32_only(tmp_path / "fp32", tmp_path / "model")))
    np.testing.assert_allclose(exact.score(query, texts), scores, atol=1e-4)
    assert_close_to_framework(tmp_path / "model", scores, query, texts)


def test_a_score_does_not_depend_on_its_neighbours(expected: dict) -> None:
    reranker = load_reranker(str(FIXTURE), threads=2)
    texts = expected["texts"] * 20
    together = reranker.score(expected["query"], texts)
    alone = [reranker.score(expected["query"], [text])[0] for text in expected["texts"]]
    np.testing.assert_array_equal(together, alone * 20)


def test_nothing_to_score() -> None:
    assert load_reranker(str(FIXTURE)).score("query", []).shape == (0,)


@pytest.mark.parametrize("query", ["", "\ud800", "file " * 50_000, "delete\0file"])
def test_any_query_is_scored(query: str) -> None:
    scores = load_reranker(str(FIXTURE)).score(query, ["delete file", "\udfff" * 9, "of " * 9_000])
    assert np.isfinite(scores).all()


def test_a_long_query_leaves_room_for_the_text() -> None:
    reranker = load_reranker(str(FIXTURE))
    scores = reranker.score("file " * 500, ["delete", "send message"])
    assert scores[0] != scores[1]


def test_fingerprint_follows_the_weights(tmp_path: Path) -> None:
    exact = load_reranker(str(fp32_only(tmp_path / "model")))
    quantized = load_reranker(str(FIXTURE))
    assert exact.fingerprint != quantized.fingerprint
    assert quantized.fingerprint == load_reranker(str(FIXTURE)).fingerprint


def test_an_encoder_is_not_a_reranker() -> None:
    with pytest.raises(ModelError, match="expected logits"):
        load_reranker("shortlist-embed")
