"""How encoding in the background fails, stops and ends with its process."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path
from threading import active_count

import pytest

from shortlist import Engine, demo
from shortlist.errors import ModelError, RequestError
from shortlist.evals.learning import learn
from shortlist.indexing import stage_models
from shortlist.indexing.memory_build import MemoryBuild
from shortlist.retrieval.usage import UsageEvent

from .fakes import make_tools
from .held_encoder import OTHER, HeldEncoder, encoding_threads, until


def test_a_failure_is_told_and_tried_again(
    other: HeldEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    other.broken = ModelError("the model's host is down")
    other.let.set()
    with caplog.at_level(logging.WARNING, "shortlist"):
        engine = Engine.from_tools(make_tools(), **OTHER, wait=False)
        assert engine.wait(60).error == "the model's host is down"
    assert "the build failed: the model's host is down" in caplog.text
    with pytest.raises(ModelError, match="host is down"):
        engine.replace(make_tools(101), wait=True)
    with pytest.raises(RequestError, match=r"not all tools are encoded.*host is down"):
        learn(engine, [UsageEvent("create an issue", (make_tools()[0].id,))])
    assert len(engine.catalog) == 101
    other.broken = None
    until(lambda: engine.build_progress.done)
    assert engine.build_progress.error is None


def test_a_bug_is_told_and_the_tools_are_searched_on(
    other: HeldEncoder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(build: MemoryBuild) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(MemoryBuild, "index", broken)
    other.let.set()
    engine = Engine.from_tools(make_tools(), **OTHER, wait=False)
    assert engine.wait(60).error == "ZeroDivisionError: by zero"
    assert "the build has stopped" in caplog.text
    assert engine.search("create an issue").tier == "fast"


def test_a_missing_encoder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ModelError("no file of this model")

    monkeypatch.setattr(stage_models, "load_encoder", absent)
    engine = Engine.from_tools(demo.load_catalog(), wait=False)
    assert engine.wait(60).error == "no file of this model"
    found = engine.search("open an issue")
    assert found.tier_reason == "hybrid -> fast: encoder: has 120 tools to read first"
    engine.close()


def test_close_stops_and_the_engine_answers_on(other: HeldEncoder) -> None:
    before = active_count()
    with Engine.from_tools(make_tools(), **OTHER, wait=False) as engine:
        until(other.waiting.is_set)
        other.left = 64
        other.let.set()
    assert active_count() == before
    assert engine.build_progress.encoded == 64
    assert engine.search("create an issue").tier == "fast"
    engine.replace(make_tools(101))
    assert encoding_threads() == 0
    engine.close()


def test_an_engine_that_nobody_has_any_more_ends_its_thread(other: HeldEncoder) -> None:
    other.left = 64
    other.let.set()
    engine = Engine.from_tools(make_tools(200), **OTHER, wait=False)
    until(other.waiting.is_set)
    del engine
    gc.collect()
    other.left = 64
    other.let.set()
    until(lambda: encoding_threads() == 0)
    assert len(other.read) == 128


def test_the_end_of_a_process_waits_for_nothing() -> None:
    program = """
from shortlist import Engine
from tests.engine.fakes import make_tools
engine = Engine.from_tools(make_tools(2000), wait=False)
engine._background._hurry.set()
import time
time.sleep({seconds})
"""
    root = Path(__file__).resolve().parents[2]
    for seconds in (0, 0.5):
        done = subprocess.run(
            [sys.executable, "-c", program.format(seconds=seconds)],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_fork_can_end_while_its_parent_encodes() -> None:
    program = """
import os, sys
from shortlist import Engine
from shortlist.errors import ProcessError
from tests.engine.fakes import make_tools
engine = Engine.from_tools(make_tools(300), wait=False)
child = os.fork()
if child == 0:
    engine.close()
    try:
        engine.wait()
    except ProcessError:
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert engine.wait(60).done
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
