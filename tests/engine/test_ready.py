"""Engines that answer at once: tools have static vectors until the encoder has read them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shortlist import Engine, Gate, Rule, State, Tool, demo
from shortlist.decision.classifier import Classifier
from shortlist.decision.decider import Decider, TierModel
from shortlist.gating import predicate

from .conftest import Models
from .fakes import make_tools
from .held_encoder import OTHER, HeldEncoder, encoding_threads, until

QUERIES = ("open an issue about the login bug", "tell the team", "which invoices are overdue?")
NEW = Tool("brew_espresso", "kitchen", "Brew a cup of strong coffee with the espresso machine")


def same_answers(one: Engine, other: Engine, queries: Sequence[str] = QUERIES) -> None:
    for tier in one.tiers:
        for query in queries:
            mine, theirs = (engine.search(query, tier=tier) for engine in (one, other))
            assert mine.tier == theirs.tier == tier
            assert mine.ids == theirs.ids
            scores = [[hit.score for hit in found] for found in (mine, theirs)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_in_the_end_answers_are_as_if_it_had_been_waited_for(held: HeldEncoder) -> None:
    engine = Engine.from_tools(demo.load_catalog(), wait=False)
    assert engine.build_progress.encoded == 0
    assert not engine.build_progress.done
    assert engine.build_progress.fraction == 0
    held.let.set()
    assert engine.wait(60).done
    assert engine.search(QUERIES[0]).pending == 0
    same_answers(engine, Engine.from_tools(demo.load_catalog()))


def test_a_first_version_answers_in_fast(held: HeldEncoder) -> None:
    engine = Engine.from_tools(demo.load_catalog(), wait=False)
    until(held.waiting.is_set)
    for tier in engine.tiers:
        found = engine.search("open an issue about the login bug", tier=tier, k=3)
        assert found.tier == (tier if tier in ("lexical", "fast") else "fast")
        assert found.pending == 120
        assert found.to_dict()["pending"] == 120
        if found.tier != tier:
            assert found.tier_reason.endswith("encoder: has 120 tools to read first")
        if found.tier == "fast":
            assert "github/create_issue" in found.ids, tier


def test_an_update_is_found_once_it_is_built(held: HeldEncoder) -> None:
    held.let.set()
    engine = Engine.from_tools(demo.load_catalog())
    held.let.clear()
    before = engine.view()
    known = engine.search(QUERIES[0])
    engine.replace_server("kitchen", [NEW], wait=False)
    assert (engine.build_progress.total, engine.build_progress.encoded) == (121, 120)
    assert NEW.id in engine.catalog
    for tier in engine.tiers:
        found = engine.search("make me a strong coffee", tier=tier)
        assert (found.tier, found.tier_reason, found.pending) == (tier, None, 1)
        assert NEW.id not in found.ids
    # What was found by `hybrid` still is.
    assert engine.search(QUERIES[0]).ids == known.ids
    held.let.set()
    assert engine.wait(60).done
    assert NEW.id not in before.search("make me a strong coffee").ids
    assert engine.search("make me a strong coffee").ids[0] == NEW.id
    same_answers(engine, Engine.from_tools([*demo.load_catalog(), NEW]))


def test_updates_that_arrive_during_a_build_are_taken_together(held: HeldEncoder) -> None:
    held.let.set()
    engine = Engine.from_tools(demo.load_catalog())
    held.let.clear()
    built = engine._builder.finish
    catalogs: list[int] = []

    def counted(build: Any) -> Any:
        catalogs.append(len(build.version.catalog))
        return built(build)

    engine._builder.finish = counted  # type: ignore[method-assign]
    engine.replace_server("kitchen", [NEW], wait=False)
    until(held.waiting.is_set)
    for number in range(5):
        engine.replace_server(f"s{number}", [Tool("brew", f"s{number}", "Brew")], wait=False)
    held.let.set()
    assert engine.wait(60).done
    assert catalogs == [126]
    same_answers(engine, Engine.from_tools(list(engine.catalog)))


def test_an_update_may_wait_where_the_engine_did_not(held: HeldEncoder) -> None:
    held.let.set()
    engine = Engine.from_tools(demo.load_catalog()[:20], wait=False)
    engine.replace(demo.load_catalog()[:40], wait=True)
    assert engine.build_progress.done
    same_answers(engine, Engine.from_tools(demo.load_catalog()[:40]))


def test_the_encoder_is_not_loaded_before_the_first_answer() -> None:
    program = """
import sys
from shortlist import Engine, demo
from shortlist.indexing import background
start = background.BackgroundBuild.start
background.BackgroundBuild.start = lambda self: None
engine = Engine.from_tools(demo.load_catalog(), wait=False)
found = engine.search("open an issue about the login bug", k=3)
assert found.tier == "fast", found
assert found.tier_reason == "hybrid -> fast: encoder: has 120 tools to read first", found
assert "onnxruntime" not in sys.modules
[many] = engine.view().search_many(["open an issue about the login bug"], k=3)
assert many.ids == found.ids
start(engine._background)
assert engine.wait(60).done
assert engine.search("open an issue about the login bug").tier == "hybrid"
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_another_encoders_tools_are_compared_once_all_are_read(other: HeldEncoder) -> None:
    engine = Engine.from_tools(make_tools(), **OTHER, wait=False)
    until(other.waiting.is_set)
    found = engine.search("create an issue", tier="embed")
    assert found.tier == "fast"
    assert found.tier_reason == "embed -> fast: encoder: has 100 tools to read first"
    assert other.read == []
    other.let.set()
    assert engine.wait(60).done
    same_answers(engine, Engine.from_tools(make_tools(), **OTHER))


def test_a_view_has_one_version_though_another_is_built_meanwhile(
    other: HeldEncoder, tmp_path: Path
) -> None:
    """The thresholds of an encoder are for its own index only."""
    always = Classifier(np.zeros(1), np.ones(1), weights=np.zeros(1), offset=5.0)
    model = TierModel(always, ("score",), 0.0, threshold=1000.0, dense=True)
    path = tmp_path / "calibration.json"
    Decider({"lexical": model}, encoder=other.fingerprint).save(path)
    engine = Engine.from_tools(make_tools(), **OTHER, abstention=str(path), wait=False)

    def wait_for_build(_: State) -> bool:
        other.let.set()
        return engine.wait(60).done

    view = engine.view(rules=Gate([Rule(predicate(wait_for_build))]))
    assert view.admission.index.is_provisional
    assert view.search("create an issue", tier="lexical").threshold is None
    assert engine.search("create an issue", tier="lexical").threshold == 1000.0


def test_a_saved_index_keeps_what_is_done(other: HeldEncoder, tmp_path: Path) -> None:
    engine = Engine.from_tools(make_tools(200), **OTHER, wait=False)
    other.left = 64
    engine.save(tmp_path / "index")
    other.let.set()
    until(lambda: engine.build_progress.encoded == 64 and other.waiting.is_set())
    until(lambda: any((tmp_path / "index").glob("v-*/encoded/000001.npz")))
    # As after a kill in the second batch.
    shutil.copytree(tmp_path / "index", tmp_path / "killed")
    other.left = 10**6
    other.let.set()
    engine.wait(60)
    assert len(other.read) == 200
    for wait in (True, False):
        other.read.clear()
        shutil.copytree(tmp_path / "killed", tmp_path / f"again-{wait}")
        again = Engine.open(tmp_path / f"again-{wait}", **OTHER, wait=wait)
        assert again.wait(60).done
        assert len(other.read) == 136
        same_answers(again, engine)
    again.save(tmp_path / "again-False")
    other.read.clear()
    assert Engine.open(tmp_path / "again-False", **OTHER).build_progress.done
    assert other.read == []


def test_what_cannot_be_read_of_it_is_encoded_again(other: HeldEncoder, tmp_path: Path) -> None:
    engine = Engine.from_tools(make_tools(200), encoder="other", wait=False)
    engine.save(tmp_path)
    other.let.set()
    engine.wait(60)
    parts = sorted(tmp_path.glob("v-*/encoded/0*"))
    assert len(parts) == 4
    parts[0].write_bytes(b"nothing")
    parts[1].write_bytes(parts[1].read_bytes()[:900])
    other.read.clear()
    again = Engine.open(tmp_path, encoder="other")
    assert len(other.read) == 128
    same_answers(again, engine)


KILLED = """
import os, signal, sys
from shortlist import Engine
from shortlist.indexing import stage_models
from tests.engine.fakes import BagEncoder, make_tools

class Killing(BagEncoder):
    def encode(self, texts, *, query=False, progress=None):
        if not query and len(self.tools) + len(texts) > 150:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(texts, query=query, progress=progress)

stage_models.load_encoder = lambda *_, **__: Killing("other")
engine = Engine.from_tools(make_tools(200), encoder="other", tiers=["fast", "embed"], wait=False)
engine.save(sys.argv[1])
engine.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_kill_loses_the_batch_in_work(models: Models, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    engine = Engine.open(tmp_path, encoder="other", tiers=["fast", "embed"])
    assert len(models.encoders["other"].tools) == 200 - 128
    same_answers(
        engine, Engine.from_tools(make_tools(200), encoder="other", tiers=["fast", "embed"])
    )


def test_versions_change_nothing_but_stages(other: HeldEncoder) -> None:
    """Requests under way keep their version, and rules are neither judged nor told anew."""
    engine = Engine.from_tools(make_tools(200), **OTHER, wait=False)
    first, view = engine._version.index, engine.view()
    other.let.set()
    engine.wait(60)
    assert engine._version.index is not first
    assert engine.catalog is first.catalog
    assert engine._gatekeeper.catalog_gate(
        engine._version.index
    ) is engine._gatekeeper.catalog_gate(first)
    assert first.dense is None
    assert view.search("create an issue").pending == 200


def test_the_static_encoder_has_nothing_to_wait_for() -> None:
    engine = Engine.from_tools(demo.load_catalog(), encoder="static", wait=False)
    assert engine.build_progress.done
    assert engine.search("tell the team").tier == "hybrid"


def test_tiers_without_vectors_start_no_thread() -> None:
    before = encoding_threads()
    engine = Engine.from_tools(make_tools(), tiers=["lexical", "fast"], wait=False)
    assert encoding_threads() == before
    assert engine.build_progress.done


def test_the_first_answer_of_a_saved_index_imports_little(tmp_path: Path) -> None:
    Engine.from_tools(demo.load_catalog(), wait=False).save(tmp_path)
    program = """
import sys
from shortlist import Engine
from shortlist.indexing import background
background.BackgroundBuild.start = lambda self: None
engine = Engine.open(sys.argv[1], wait=False)
assert engine.search("open an issue about the login bug").tier == "fast"
slow = {"asyncio", "filelock", "numpy.ma", "onnxruntime", "ssl"} & sys.modules.keys()
assert not slow, slow
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
