"""A saved index remembers how it was made; settings that are given replace what it remembers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from shortlist import Config, Engine, Gate, Rule, Tool
from shortlist.errors import ConfigError
from shortlist.gating import annotation

from .conftest import Models
from .fakes import make_tools

MakeEngine = Callable[..., Engine]
TOOLS = [
    Tool("bmi", "health", "Quotient of mass and squared height"),
    Tool("rank", "algebra", "Dimension of the column space of a matrix"),
]


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps({"tool": "health/bmi", "requests": ["am I overweight?"]}))
    return path


@pytest.fixture
def folder(queries: Path, tmp_path: Path) -> Path:
    settings = {"tiers": ["lexical", "fast"], "index": {"example_queries": [queries]}}
    Engine.from_tools(TOOLS, **settings).save(tmp_path / "index")
    return tmp_path / "index"


def test_tiers_and_example_queries(folder: Path) -> None:
    engine = Engine.open(folder)
    assert engine.tiers == ("lexical", "fast")
    assert engine.config.default_tier == "fast"
    assert engine.search("overweight").ids[0] == "health/bmi"


def test_a_file_of_example_queries_may_be_gone(
    folder: Path, queries: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queries.unlink()
    engine = Engine.open(folder)
    assert "the example queries in the saved index are used" in caplog.text
    assert engine.search("overweight").ids[0] == "health/bmi"
    engine.replace([*TOOLS, Tool("clock", "time", "The time of day")])
    assert engine.search("overweight").ids[0] == "health/bmi"
    assert Engine.open(folder, index={"example_queries": [queries]}).search("overweight").ids
    with pytest.raises(ConfigError, match=r"other\.jsonl"):
        Engine.open(folder, index={"example_queries": [queries.with_name("other.jsonl")]})


def test_what_is_given_wins_and_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "shortlist"):
        engine = Engine.open(folder, tiers=["lexical"])
    assert engine.tiers == ("lexical",)
    assert engine.search("overweight").ids == ("health/bmi",)
    assert "given in place of saved settings: default_tier, tiers" in caplog.text


def test_a_setting_that_is_not_remembered_is_the_default(
    make_engine: MakeEngine, tmp_path: Path
) -> None:
    rule = Rule(annotation("readOnlyHint", True), tools="*")
    make_engine(make_tools(3), gate=Gate((rule,)), k=1).save(tmp_path)
    opened = Engine.open(tmp_path)
    assert opened.config.k == 10
    assert len(opened.search("issue")) == 3


def test_encoder_reranker_and_stages(
    make_engine: MakeEngine, models: Models, tmp_path: Path
) -> None:
    boosts = {"boosts": {"name": 1.0}}
    settings = {"encoder": "other", "lexical": boosts, "tiers": {"mine": {"retrievers": ["dense"]}}}
    engine = make_engine(make_tools(20), **settings, default_tier="mine")
    engine.save(tmp_path)
    opened = Engine.open(tmp_path)
    assert opened.build_progress.newly_encoded == 0
    assert (opened.config.encoder, opened.config.reranker) == ("other", "overlap")
    assert opened.config.lexical == engine.config.lexical
    assert opened.tiers == engine.tiers
    assert opened.search("create an issue").tier == "mine"
    assert opened.search("create an issue").ids == engine.search("create an issue").ids
    assert Engine.open(tmp_path, encoder="bundled").build_progress.newly_encoded == 20


def test_saving_again_remembers_the_same(folder: Path) -> None:
    engine = Engine.open(folder)
    engine.save(folder)
    assert Engine.open(folder).config == engine.config


def test_over_keeps_what_was_given() -> None:
    saved = Config(tiers=["lexical"], encoder="static").settings_to_save()
    config, replaced = Config(default_tier="auto", encoder="static").merged_with_saved(saved)
    assert (list(config.tiers), config.default_tier, replaced) == (
        ["lexical"],
        "auto",
        ("default_tier",),
    )
    config, replaced = Config().merged_with_saved({})
    assert (config, replaced) == (Config(), ())
    with pytest.raises(ConfigError, match="default_tier 'hybrid' is not among the tiers"):
        Config(default_tier="hybrid").merged_with_saved(saved)
