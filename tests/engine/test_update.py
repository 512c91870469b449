"""Replacing the catalog: only what changed is encoded, and failures change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Engine, Tool
from shortlist.errors import CatalogError, ModelError

from .conftest import TIERS, Models
from .fakes import make_tools

MakeEngine = Callable[..., Engine]


def test_only_new_texts_are_encoded(make_engine: MakeEngine, models: Models) -> None:
    engine = make_engine()
    assert engine.build_progress.newly_encoded == len(models.encoder.tools) == 100
    models.encoder.tools.clear()
    changed = [Tool("zap", "x", "Zap it"), *make_tools(100)[1:], Tool("zip", "x", "Zip it")]
    engine.replace(changed)
    assert engine.build_progress.newly_encoded == len(models.encoder.tools) == 2
    assert engine.search("zip", k=1).ids == ("x/zip",)


def test_equal_texts_are_encoded_once(make_engine: MakeEngine, models: Models) -> None:
    twins = [Tool("copy", "s", "Copy a file", id=str(number)) for number in range(9)]
    assert make_engine(twins).build_progress.newly_encoded == len(models.encoder.tools) == 1


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
        engine.replace([tools[number] for number in sorted(step)])
        assert engine.build_progress.newly_encoded == len(step - held)
        held = step
        assert set(engine.search("issue", k=40).ids) == {tools[number].id for number in step}


def test_progress_counts_up_to_what_is_encoded(make_engine: MakeEngine) -> None:
    engine = make_engine()
    seen: list[tuple[int, int]] = []
    engine.replace(make_tools(130), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 30) for number in range(1, 31)]


def test_after_an_update_that_fails_the_next_one_tries_again(
    make_engine: MakeEngine, models: Models
) -> None:
    engine = make_engine()
    models.encoder.broken = ModelError("session lost")
    with pytest.raises(ModelError, match="session lost"):
        engine.replace(make_tools(130)[1:])
    models.encoder.broken = None
    assert len(engine.view().catalog) == 99
    assert not engine.view().permits(make_tools(1)[0].id)
    assert engine.search("create an issue").tier == "hybrid"
    engine.replace(make_tools(130))
    assert len(engine.catalog) == len(engine.view().catalog) == 130


def test_to_nothing_and_back(make_engine: MakeEngine, tier: str) -> None:
    engine = make_engine(make_tools(5))
    engine.replace([])
    assert engine.search("create an issue", tier=tier).hits == ()
    engine.replace(make_tools(5))
    assert engine.search("create an issue", tier=tier).hits


class TestOneServer:
    def test_its_tools_are_replaced_in_their_place(
        self, make_engine: MakeEngine, models: Models
    ) -> None:
        engine = make_engine()
        expected = engine.catalog.replace_server("slack", [Tool("zip", "slack", "Zip it")])
        models.encoder.tools.clear()
        engine.replace_server("slack", [Tool("zip", "slack", "Zip it")])
        assert engine.catalog == expected
        assert len(models.encoder.tools) == engine.build_progress.newly_encoded == 1
        assert engine.search("zip it", k=1).ids == ("slack/zip",)

    def test_without_tools_it_goes(self, make_engine: MakeEngine, tier: str) -> None:
        engine = make_engine()
        engine.replace_server("slack", [])
        engine.replace_server("slack", [Tool("zip", "slack", "Zip it")])
        assert engine.search("zip it").ids[0] == "slack/zip"
        engine.replace_server("slack", [])
        assert "slack" not in engine.catalog.servers
        found = engine.search("create an issue", tier=tier, k=100).ids
        assert found
        assert not any(tool_id.startswith("slack/") for tool_id in found)

    def test_a_new_one_comes_last(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        engine.replace_server("x", iter([Tool("zip", "x", "Zip it")]))
        assert engine.catalog[-1].id == "x/zip"

    def test_added_tools_come_last_and_a_removed_server_is_gone(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine()
        engine.add([Tool("zip", "slack", "Zip it"), Tool("unzip", "x", "Unzip it")])
        assert [tool.id for tool in engine.catalog[-2:]] == ["slack/zip", "x/unzip"]
        assert engine.search("zip it", k=1).ids == ("slack/zip",)
        engine.remove("slack")
        assert "slack" not in engine.catalog.servers
        assert engine.explain("unzip it", "unzip").rank == 1

    def test_what_is_there_is_not_added_and_what_is_not_there_not_removed(
        self, make_engine: MakeEngine
    ) -> None:
        engine = make_engine()
        before = engine.catalog
        with pytest.raises(CatalogError, match=r"has 'slack/.*'; replace_server changes its tools"):
            engine.add([tool for tool in before if tool.server == "slack"])
        with pytest.raises(CatalogError, match=r"no 'slak' in the catalog, which has: .*slack"):
            engine.remove("slak")
        assert engine.catalog is before

    def test_a_tool_of_another_changes_nothing(self, make_engine: MakeEngine) -> None:
        engine = make_engine()
        before = engine.catalog
        with pytest.raises(CatalogError, match="belongs to server 'x'"):
            engine.replace_server("slack", [Tool("zip", "x", "Zip it")])
        assert engine.catalog is before


#: Servers that a step replaces, or None for the whole catalog; with the tools they have then.
STEPS = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b", "c"]),
        st.dictionaries(st.integers(0, 12), st.integers(0, 1), max_size=8),
    ),
    min_size=1,
    max_size=6,
)
#: Tools that no step changes, so that few of all differ.
REST = [Tool(f"fixed_{number}", "rest", f"Keeps file {number % 7}") for number in range(40)]


def edition(server: str, editions: dict[int, int]) -> list[Tool]:
    """Some of a server's tools; many are equal but for their ids, and so are their scores."""
    return [
        Tool("copy", server, f"Copy a file {edition}", id=f"{server}/{number:02d}")
        for number, edition in editions.items()
    ]


@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, allowed=st.sets(st.integers(0, 60)), tier=st.sampled_from(TIERS))
def test_any_series_of_updates_answers_as_an_engine_built_anew(
    make_engine: MakeEngine,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str | None, dict[int, int]]],
    allowed: set[int],
    tier: str,
) -> None:
    engine = make_engine(REST)
    for server, editions in steps:
        if server is None:
            engine.replace([*edition("b", editions), *REST[len(editions) :]])
        else:
            engine.replace_server(server, edition(server, editions))
        tools = list(engine.catalog)
        some = [tool.id for number, tool in enumerate(tools) if number in allowed]
        fresh = make_engine(tools)
        for query in ("copy a file 1", "keeps file 3"):
            for limit in (None, some):
                for k in (3, 60):
                    found = engine.view(allowed=limit).search(query, tier=tier, k=k)
                    offered = set(some) if limit is not None else {tool.id for tool in tools}
                    assert set(found.ids) <= offered
                    assert [hit.tool for hit in found] == engine.view().details(found.ids)
                    anew = fresh.view(allowed=limit).search(query, tier=tier, k=k)
                    assert [(hit.id, hit.score) for hit in found] == [
                        (hit.id, hit.score) for hit in anew
                    ]
                    denied = [one.tool_id for one in found.denied]
                    assert denied == sorted(denied)
                    assert not set(denied) & set(found.ids)
    folder = tmp_path_factory.mktemp("saved")
    engine.save(folder)
    opened = Engine.open(folder, reranker="overlap")
    for query in ("copy a file 1", "keeps file 3"):
        one, other = (each.search(query, tier=tier, k=60) for each in (opened, fresh))
        assert [(hit.id, hit.score) for hit in one] == [(hit.id, hit.score) for hit in other]


def test_an_opened_folder_is_not_written_to(make_engine: MakeEngine, tmp_path: Path) -> None:
    make_engine().save(tmp_path)
    held = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    engine = Engine.open(tmp_path, reranker="overlap")
    for _ in range(2):
        engine.replace_server("x", [Tool("zip", "x", "Zip it")])
        engine.replace_server("x", [])
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path: left[path] for path in held} == held
    assert all(path.suffix == ".lock" for path in left.keys() - held.keys())
