"""Forked processes: an engine made before the fork is refused, one made after it works."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shortlist.errors import ProcessError
from shortlist.processes import GuardedLock, ProcessGuard, paused_gc

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")

START = """
import os, sys, threading
from pathlib import Path
from shortlist import Engine, State
from shortlist.demo import load_catalog
from shortlist.errors import ProcessError

folder = Path(sys.argv[1])
catalog = [tool for tool in load_catalog() if tool.server == "github"]
engine = Engine.from_tools(catalog)
engine.save(folder)
view, session = engine.view(), engine.session(provider="openai", tools="list")
session.turn("open an issue")
expected = engine.search("open an issue", tier="hybrid").ids

def in_fork(work):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            # As a worker that ends by itself: all that runs at exit has to run.
            sys.exit(code) if code == 0 else os._exit(code)
    assert os.waitpid(child, 0)[1] == 0

def refused(call):
    try:
        call()
    except ProcessError as error:
        assert str(os.getppid()) in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError(f"line {call.__code__.co_firstlineno} was not refused")
"""
REFUSED = """
CALLS = [
    lambda: engine.search("open an issue"),
    lambda: engine.view(State()),
    lambda: engine.session(),
    lambda: engine.resume({}, state=State()),
    lambda: engine.replace([]),
    lambda: engine.replace([], quarantined={}),
    lambda: engine.quarantine({}),
    lambda: engine.save(folder),
    lambda: engine.problems,
    lambda: engine.after_call(State(), "github/create_issue"),
    lambda: view.search("open an issue"),
    lambda: view.search("open an issue", abstain=True),
    lambda: view.search_many(["open an issue"]),
    lambda: view.explain("open an issue", "github/create_issue"),
    lambda: view.tools(),
    lambda: view.permits("github/create_issue"),
    lambda: view.refusal("github/create_issue"),
    lambda: view.details(["github/create_issue"]),
    lambda: view.check("github/create_issue", {}),
    lambda: view.search("open an issue", abstain=True),
    lambda: session.turn("open an issue"),
    lambda: session.check("github__create_issue", {}),
    lambda: session.result("github/create_issue", "done"),
    lambda: session.answered("done"),
    lambda: session.active,
    lambda: session.save(),
    lambda: session.view(),
]
def all_refused():
    for call in CALLS:
        refused(call)

# Locks that other threads hold at the fork are never released in the child.
locks = [engine._update_lock, engine._version_lock, engine._gatekeeper._lock, session._lock]
held, done = threading.Barrier(2), threading.Event()
def hold():
    for lock in locks:
        lock.__enter__()
    held.wait()
    done.wait()
    for lock in locks:
        lock.__exit__(None, None, None)
holder = threading.Thread(target=hold, daemon=True)
holder.start()
held.wait()
in_fork(all_refused)
done.set()
holder.join()
in_fork(all_refused)
assert engine.search("open an issue", tier="hybrid").ids == expected
session.turn("list the issues")
engine.replace(catalog)
"""
AFTER = """
def works():
    for made in (Engine.open(folder), Engine.from_tools(catalog)):
        assert made.search("open an issue", tier="hybrid").ids == expected
        turn = made.session(provider="openai", tools="list").turn("open an issue")
        assert turn.ids
        made.replace(list(made.catalog)[:-1])
        made.save(folder.with_name("child"))

in_fork(works)
assert engine.search("open an issue", tier="hybrid").ids == expected
"""
SPAWN = """
import multiprocessing, sys
from shortlist import Engine

def search(folder):
    return Engine.open(folder).search("open an issue").ids

if __name__ == "__main__":
    folder = sys.argv[1]
    from shortlist.demo import load_catalog
    engine = Engine.from_tools(load_catalog()[:20])
    engine.save(folder)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(search, [folder] * 2) == [engine.search("open an issue").ids] * 2
"""


def run(tmp_path: Path, program: str) -> None:
    (tmp_path / "temporary").mkdir()
    path = tmp_path / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "index")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_engine_made_before_the_fork_is_refused_and_one_made_after_it_works(
    tmp_path: Path,
) -> None:
    run(tmp_path, START + REFUSED + AFTER)


def test_spawned_processes_open_the_saved_index(tmp_path: Path) -> None:
    run(tmp_path, SPAWN)


def test_a_guard_knows_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, lock = ProcessGuard("engine"), GuardedLock("session", reentrant=True)
    guard.check()
    with lock, lock:
        pass
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(ProcessError, match=r"this engine was made in process \d+ .* process -1"):
        guard.check()
    with pytest.raises(ProcessError, match="this session"), lock:
        pass


@pytest.mark.parametrize(("given", "kept"), [(None, "1"), ("0", "0"), ("1", "1")])
def test_onnxruntime_reports_nothing_unless_asked(given: str | None, kept: str) -> None:
    """Its telemetry is a connection, a file in the temporary folder, and a hang in forks."""
    environment = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    if given is not None:
        environment["ORT_DISABLE_TELEMETRY"] = given
    done = subprocess.run(
        [sys.executable, "-c", "import os, shortlist; print(os.environ['ORT_DISABLE_TELEMETRY'])"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert done.stdout.split() == [kept]


def test_paused_collection_is_as_it_was_afterwards() -> None:
    with paused_gc():
        assert not gc.isenabled()
        with paused_gc():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="wrong"), paused_gc():
        raise ValueError("wrong")
    assert gc.isenabled()
