"""The tier `fast`: static vectors beside BM25, without ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shortlist import Engine, demo
from shortlist.errors import ConfigError
from shortlist.models import load_encoder

from .conftest import Models

QUERY = "what do customers still owe us?"
WITHOUT_A_MODEL = """
import sys
from shortlist import Engine, demo
engine = Engine.from_tools(demo.load_catalog(), {settings})
found = engine.search("post a message in the channel", tier="fast", k=3)
assert found.tier == "fast" and found.tier_reason is None, found
assert any(one.startswith("slack/") for one in found.ids), found.ids
assert "onnxruntime" not in sys.modules
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module")
def demo_engine() -> Engine:
    return Engine.from_tools(demo.load_catalog())


@pytest.mark.parametrize("settings", ["tiers=['lexical', 'fast']", "encoder='static'"])
def test_no_model_is_run(settings: str) -> None:
    program = WITHOUT_A_MODEL.format(settings=settings)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_tools_have_the_encoders_vectors_projected(demo_engine: Engine) -> None:
    index = demo_engine._version.index
    static, dense = index.static, index.dense
    assert static is not None
    assert dense is not None
    tables = load_encoder("static")
    assert np.array_equal(static.index.vectors, tables.project(dense.index.vectors))  # type: ignore[attr-defined]


def test_another_encoder_leaves_the_tables_own_vectors(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    index = engine._version.index
    assert index.static is not None
    assert index.static.index.vectors.shape == (100, load_encoder("static").dim)


def test_searches_encode_nothing(make_engine: Callable[..., Engine], models: Models) -> None:
    engine = make_engine()
    models.encoder.queries.clear()
    found = engine.search("create an issue", tier="fast")
    assert found.tier == "fast"
    assert set(found.timings) == {"lexical", "static", "fusion"}
    assert models.encoder.queries == []


def test_static_as_the_encoder_serves_every_tier() -> None:
    engine = Engine.from_tools(demo.load_catalog(), encoder="static")
    for tier in engine.tiers:
        found = engine.search("post a message in the channel", tier=tier, k=5)
        assert (found.tier, found.tier_reason) == (tier, None)
        assert any(one.startswith("slack/") for one in found.ids)


def test_a_saved_index_answers_alike(demo_engine: Engine, tmp_path: Path) -> None:
    demo_engine.save(tmp_path)
    opened = Engine.open(tmp_path)
    one, other = (engine.search(QUERY, tier="fast") for engine in (demo_engine, opened))
    assert one.hits == other.hits


def test_an_unknown_retriever_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match="no retriever semantic; use one of: lexical, static"):
        Engine.from_tools([], tiers={"mine": {"retrievers": ["semantic"]}})
