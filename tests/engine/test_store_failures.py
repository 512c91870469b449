"""Saves that fail or are interrupted, a damaged CURRENT, folders that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shortlist import Engine
from shortlist.errors import StoreError
from shortlist.retrieval.store import versions as store

from .conftest import Models
from .fakes import make_tools
from .saved import answers, open_engine, version_of

MakeEngine = Callable[..., Engine]


class TestFailures:
    def test_what_killed_writers_left_is_removed_before_anything_is_written(
        self, engine: Engine, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in (7, 8):
            shutil.copytree(version_of(saved), saved / f"v-{number:06d}")
        seen = []
        monkeypatch.setattr(
            store, "_write_lexical", lambda *_: seen.extend(path.name for path in saved.glob("v-*"))
        )
        engine.save(saved)
        assert sorted(seen) == ["v-000001", "v-000009"]

    def test_a_failed_version_is_removed_though_a_thread_still_writes_into_it(
        self, tmp_path: Path
    ) -> None:
        version = tmp_path / "v-000001"
        for _ in range(20):
            version.mkdir()
            has_ended = threading.Event()

            def write(has_ended: threading.Event = has_ended) -> None:
                number = 0
                while not has_ended.is_set() and number < 2_000:
                    with suppress(OSError):
                        (version / f"{number}.term").touch()
                    number += 1

            writer = threading.Thread(target=write)
            writer.start()
            store._discard(version)
            assert not version.exists()
            has_ended.set()
            writer.join()

    @pytest.mark.parametrize("wrong", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
    @pytest.mark.parametrize(
        "place", ["_write_lexical", "_write", "_make_current", "_flush", "_sha256", "Vectors.save"]
    )
    def test_a_save_that_fails_leaves_nothing_of_its_own(
        self,
        engine: Engine,
        saved: Path,
        monkeypatch: pytest.MonkeyPatch,
        place: str,
        wrong: BaseException,
    ) -> None:
        before = {path: path.stat().st_mtime_ns for path in saved.rglob("*") if path.is_file()}

        def fail(*_: object) -> None:
            raise wrong

        with monkeypatch.context() as patch:
            patch.setattr(f"shortlist.retrieval.store.versions.{place}", fail)
            for _ in range(3):
                expected = StoreError if isinstance(wrong, OSError) else type(wrong)
                with pytest.raises(expected):
                    engine.save(saved)
        after = {path: path.stat().st_mtime_ns for path in saved.rglob("*") if path.is_file()}
        before.pop(saved / "LOCK", None)
        after.pop(saved / "LOCK", None)
        assert after == before
        assert [path.name for path in saved.glob("v-*")] == ["v-000001"]
        engine.save(saved)
        assert len(open_engine(saved).catalog) == 100

    def test_an_interruption_after_the_version_became_current_keeps_it(
        self, engine: Engine, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_current = store._make_current

        def interrupted(version: Path) -> None:
            make_current(version)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(store, "_make_current", interrupted)
            with pytest.raises(KeyboardInterrupt):
                engine.save(saved)
        assert version_of(saved).name == "v-000002"
        assert answers(open_engine(saved)) == answers(engine)

    def test_an_index_whose_files_later_saves_removed_can_be_saved(
        self, make_engine: MakeEngine, saved: Path
    ) -> None:
        opened, other = open_engine(saved), make_engine(make_tools(30))
        for _ in range(2):
            other.save(saved)
        assert not (saved / "v-000001").exists()
        opened.save(saved)
        assert answers(open_engine(saved)) == answers(opened)

    @pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", b"v-999999", None])
    def test_a_save_repairs_a_damaged_current(
        self, make_engine: MakeEngine, saved: Path, content: bytes | None
    ) -> None:
        engine = make_engine(make_tools(20))
        engine.save(saved)
        shutil.copytree(saved / "v-000002", saved / "v-000007")
        (saved / "v-000007" / "tools.jsonl").write_text("half a li")
        (saved / "v-000008").mkdir()
        (saved / "CURRENT").unlink()
        if content is not None:
            (saved / "CURRENT").write_bytes(content)
        engine.replace(make_tools(30))
        engine.save(saved)
        assert len(open_engine(saved).catalog) == 30
        # Either of the complete versions may have been the current one.
        names = ["v-000001", "v-000002", "v-000009"]
        assert sorted(path.name for path in saved.glob("v-*")) == names
        engine.save(saved)
        names = ["v-000009", "v-000010"]
        assert sorted(path.name for path in saved.glob("v-*")) == names


@pytest.mark.parametrize("tiers", [["lexical"], ["lexical", "embed", "hybrid"]])
def test_a_folder_that_cannot_be_written_is_opened_without_a_copy(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiers: list[str]
) -> None:
    engine = make_engine(tiers=tiers)
    engine.save(tmp_path / "index")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")}
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("shortlist.retrieval.backends.tantivy.os.access", lambda *_: False)
    opened = open_engine(tmp_path / "index", tiers=tiers)
    assert answers(opened) == answers(engine)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")} == before


def test_all_who_may_read_the_folder_may_read_its_files(saved: Path) -> None:
    open_engine(saved).save(saved)
    version = version_of(saved)
    for path in version.rglob("*"):
        if path.is_file() and not path.name.endswith(".lock"):
            assert path.stat().st_mode & 0o666 == path.parent.stat().st_mode & 0o666, path


def test_a_path_that_is_none_is_a_store_error(engine: Engine, models: Models) -> None:
    with pytest.raises(StoreError):
        engine.save("in\0dex")
    with pytest.raises(StoreError):
        open_engine(Path("in\0dex"))


def test_a_graph_that_a_full_disk_cuts_short_is_an_error(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(dense={"backend": "hnswlib"})

    class Cut:
        def __init__(self, graph: Any) -> None:
            self._graph = graph

        def __getattr__(self, name: str) -> Any:
            return getattr(self._graph, name)

        def save_index(self, path: str) -> None:
            Path(path).write_bytes(b"half")

    graph = engine._version.index.dense.index  # type: ignore[union-attr]
    monkeypatch.setattr(graph, "_graph", Cut(graph._graph))
    with pytest.raises(StoreError, match=r"4 of .* bytes written"):
        engine.save(tmp_path)
    assert list(tmp_path.glob("v-*")) == []


FULL_DISK = """
import resource, sys
from pathlib import Path
from shortlist import Engine
from shortlist.indexing import stage_models
from shortlist.errors import StoreError
from tests.engine.fakes import BagEncoder, make_tools

stage_models.load_encoder = lambda *_, **__: BagEncoder()
folder = Path(sys.argv[1])
settings = {"tiers": ["lexical", "embed"], "dense": {"backend": sys.argv[2]}}
engine = Engine.from_tools(make_tools(200), **settings)
engine.save(folder)
size = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
engine.replace(make_tools(210))
for _ in range(3):
    try:
        engine.save(folder)
    except StoreError as error:
        assert "cannot be written" in str(error), error
    else:
        raise AssertionError("saved")
assert [path.name for path in folder.glob("v-*")] == ["v-000001"], list(folder.iterdir())
assert not (folder / "CURRENT.new").exists()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(Engine.open(folder, **settings).catalog) == 200
engine.save(folder)
assert len(Engine.open(folder, **settings).catalog) == 210
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of file sizes")
@pytest.mark.parametrize(("backend", "size"), [("exact", 4), ("hnswlib", 500), ("exact", 20_000)])
def test_files_that_may_not_grow_fail_the_save_and_leave_nothing(
    tmp_path: Path, backend: str, size: int
) -> None:
    """A limit of the size of files stands for a full disk: writes fail anywhere in the save."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "index"), backend, str(size)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
