"""What holds while a new version is built: removals, quarantine, rules and changed definitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Gate, Rule, State, Tool
from shortlist.gating import annotation
from shortlist.indexing.memory_build import MemoryBuild

from ..engine.conftest import cheap_models

#: Number of a tool to the edition of its definition.
CATALOGS = st.dictionaries(st.integers(0, 15), st.integers(0, 3), max_size=12)
QUARANTINES = st.sets(st.integers(0, 15), max_size=3)
QUERY = "copy the file"


def tool(number: int, edition: int) -> Tool:
    # Editions 2 and 3 are not read-only, so that the rule denies them.
    hints = {"readOnlyHint": edition < 2}
    return Tool(f"copy_{number:02d}", "files", f"Copy the file {edition}", annotations=hints)


def tools_of(editions: dict[int, int]) -> list[Tool]:
    return [tool(number, edition) for number, edition in editions.items()]


@pytest.fixture(scope="module")
def models() -> Iterator[Any]:
    with cheap_models() as known:
        yield known


class HeldBuilds:
    """Holds the builds of background threads until they are let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.go.set()
        encode_some: Callable[..., Any] = MemoryBuild.encode_some

        def held(build: MemoryBuild, progress: Any = None) -> Any:
            if threading.current_thread().name == "shortlist-build":
                assert self.go.wait(60)
            return encode_some(build, progress)

        monkeypatch.setattr(MemoryBuild, "encode_some", held)


@pytest.fixture(scope="module")
def builds(models: Any) -> Iterator[HeldBuilds]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        held = HeldBuilds(monkeypatch)
        yield held
        held.go.set()


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(first=CATALOGS, steps=st.lists(st.tuples(CATALOGS, QUARANTINES), min_size=1, max_size=4))
@example(first={0: 0}, steps=[({0: 2}, set())])
def test_each_request_follows_the_newest_decision(
    builds: HeldBuilds, first: dict[int, int], steps: list[tuple[dict[int, int], set[int]]]
) -> None:
    rule = Rule(annotation("readOnlyHint", True), tools="copy_*")
    engine = Engine.from_tools(tools_of(first), encoder="other", gate=Gate((rule,)))
    builds.go.clear()
    try:
        for editions, quarantined in steps:
            engine.replace(tools_of(editions), wait=False)
            engine.quarantine({f"files/copy_{number:02d}": "wait" for number in quarantined})
            newest = Catalog(tools_of(editions))
            view = engine.view(State())
            for tier in engine.tiers:
                for hit in view.search(QUERY, tier=tier, k=30):
                    number = int(hit.id[-2:])
                    assert hit.tool == newest.get(hit.id)
                    assert hit.tool.annotations["readOnlyHint"]
                    assert number not in quarantined
            for number in range(16):
                tool_id = f"files/copy_{number:02d}"
                if number not in editions:
                    assert view.check(tool_id).status == "unknown"
                elif number in quarantined or editions[number] >= 2:
                    assert view.check(tool_id).status != "passed"
            assert {tool.id for tool in view.catalog} <= {tool.id for tool in newest}
            # Who was found before the update and is still permitted is found during it.
            if engine._version.index.dense is not None:
                still = {tool.id for tool in view.tools()}
                assert set(view.search(QUERY, tier="embed", k=30).ids) == still
    finally:
        builds.go.set()
    assert engine.wait(60).done
    engine.quarantine({})
    fresh = Engine.from_tools(tools_of(steps[-1][0]), encoder="other", gate=Gate((rule,)))
    for tier in engine.tiers:
        answers = [
            [(hit.tool, hit.score) for hit in each.search(QUERY, tier=tier, k=30)]
            for each in (engine, fresh)
        ]
        assert answers[0] == answers[1]
    engine.close()


def test_what_changes_no_text_builds_nothing(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.from_tools(tools_of({0: 0, 1: 1}), encoder="other")
    built = engine._version.index.lexical
    monkeypatch.setattr(MemoryBuild, "index", lambda build: pytest.fail("a build"))
    engine.replace(list(reversed(list(engine.catalog))))
    engine.replace(engine.catalog, quarantined={"files/copy_00": "wait"})
    assert engine._version.index.lexical is built
    assert [tool.id for tool in engine.catalog] == ["files/copy_01", "files/copy_00"]
    assert engine.view().refusal("files/copy_00").kind == "quarantined"


def test_a_removed_tool_that_comes_back_is_found_again(builds: HeldBuilds) -> None:
    engine = Engine.from_tools(tools_of({0: 0, 1: 1}), encoder="other")
    builds.go.clear()
    try:
        engine.replace(tools_of({1: 1}), wait=False)
        assert engine.search(QUERY).ids == ("files/copy_01",)
        assert engine.search("copy_00").ids[:1] != ("files/copy_00",)
        engine.replace(tools_of({0: 0, 1: 1}), wait=False)
        assert set(engine.search(QUERY).ids) == {"files/copy_00", "files/copy_01"}
    finally:
        builds.go.set()
    assert engine.wait(60).done
    engine.close()


def test_a_view_may_hide_rows_while_a_removed_tool_still_has_one(builds: HeldBuilds) -> None:
    engine = Engine.from_tools(tools_of({0: 0, 1: 1, 2: 0}), encoder="other")
    builds.go.clear()
    try:
        engine.replace(tools_of({1: 1, 2: 0}), wait=False)
        view = engine.view()
        visible = np.array([tool.id != "files/copy_02" for tool in view.admission.index.tools])
        shown = view.limited_to(visible)
        assert [tool.id for tool in shown.tools()] == ["files/copy_01"]
        assert shown.search(QUERY).ids == ("files/copy_01",)
        assert {shown.check(f"files/copy_{n:02d}").status for n in (0, 2)} == {"unknown"}
    finally:
        builds.go.set()
    assert engine.wait(60).done
    engine.close()


def test_a_save_during_an_update_builds_and_saves_the_new_version(
    builds: HeldBuilds, tmp_path: Path
) -> None:
    engine = Engine.from_tools(tools_of({0: 0, 1: 1}), encoder="other", wait=False)
    assert engine.wait(60).done
    engine.save(tmp_path)
    engine.close()
    engine.replace(tools_of({1: 1, 2: 0}), wait=False)
    saving = threading.Thread(target=lambda: engine.save(tmp_path), daemon=True)
    saving.start()
    saving.join(60)
    assert not saving.is_alive()
    assert engine.build_progress.done
    ids = {tool.id for tool in Engine.open(tmp_path).catalog}
    assert ids == {"files/copy_01", "files/copy_02"}
