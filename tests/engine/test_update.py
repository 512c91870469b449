"""Replacing the catalog: only what changed is encoded, and failures change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Engine, Tool
from shortlist.errors import ModelError

from .conftest import Models
from .fakes import make_tools

MakeEngine = Callable[..., Engine]


def test_only_new_texts_are_encoded(make_engine: MakeEngine, models: Models) -> None:
    engine = make_engine()
    assert engine.encoded == len(models.encoder.tools) == 100
    models.encoder.tools.clear()
    changed = [Tool("zap", "x", "Zap it"), *make_tools(100)[1:], Tool("zip", "x", "Zip it")]
    engine.update(changed)
    assert engine.encoded == len(models.encoder.tools) == 2
    assert engine.search("zip", k=1).ids == ("x/zip",)


def test_the_same_tools_encode_nothing(make_engine: MakeEngine, models: Models) -> None:
    engine = make_engine()
    models.encoder.tools.clear()
    engine.update(list(reversed(make_tools())))
    assert models.encoder.tools == []


def test_equal_texts_are_encoded_once(make_engine: MakeEngine, models: Models) -> None:
    twins = [Tool("copy", "s", "Copy a file", id=str(number)) for number in range(9)]
    assert make_engine(twins).encoded == len(models.encoder.tools) == 1


def test_an_update_answers_as_an_engine_built_anew(make_engine: MakeEngine, tier: str) -> None:
    engine = make_engine(make_tools(80))
    after = make_tools(120)[20:]
    engine.update(after)
    fresh = make_engine(after)
    for query in ("create an issue", "copy ticket v1", "slack/list_issue"):
        one, other = (e.search(query, tier=tier, k=30) for e in (engine, fresh))
        assert [(hit.id, hit.score) for hit in one] == [(hit.id, hit.score) for hit in other]
        assert one.catalog == other.catalog


@settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.sets(st.integers(0, 30), max_size=15), min_size=1, max_size=4))
def test_any_series_of_updates_encodes_each_step_only_what_is_new(
    make_engine: MakeEngine, steps: list[set[int]]
) -> None:
    tools = make_tools(31)
    engine, held = make_engine([], tiers=["embed"]), set()
    for step in steps:
        engine.update([tools[number] for number in sorted(step)])
        assert engine.encoded == len(step - held)
        held = step
        assert set(engine.search("issue", k=40).ids) == {tools[number].id for number in step}


def test_progress_counts_up_to_what_is_encoded(make_engine: MakeEngine) -> None:
    engine = make_engine()
    seen: list[tuple[int, int]] = []
    engine.update(make_tools(130), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 30) for number in range(1, 31)]


def test_an_update_that_fails_leaves_the_catalog(make_engine: MakeEngine, models: Models) -> None:
    engine = make_engine()
    before = engine.catalog
    models.encoder.broken = ModelError("session lost")
    with pytest.raises(ModelError, match="session lost"):
        engine.update(make_tools(130))
    models.encoder.broken = None
    assert engine.catalog is before
    assert engine.search("create an issue").hits
    engine.update(make_tools(130))
    assert len(engine.catalog) == 130


def test_to_nothing_and_back(make_engine: MakeEngine, tier: str) -> None:
    engine = make_engine(make_tools(5))
    engine.update([])
    assert engine.search("create an issue", tier=tier).hits == ()
    engine.update(make_tools(5))
    assert engine.search("create an issue", tier=tier).hits
