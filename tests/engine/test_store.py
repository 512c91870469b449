"""An index on disk: what is saved is what is opened, and damage is an error, not an answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Tool
from shortlist.errors import ShortlistError, StoreError
from shortlist.retrieval import store

from .conftest import Models
from .fakes import make_tools

MakeEngine = Callable[..., Engine]
QUERIES = ("create an issue", "share a page", "jira/create_issue", "list")


def answers(engine: Engine) -> list[Any]:
    return [
        [(hit.id, hit.score, hit.rank) for hit in engine.search(query, tier=tier, k=20)]
        for query in QUERIES
        for tier in engine.tiers
    ]


def open_engine(folder: Path, tools: Any = None, **settings_: Any) -> Engine:
    return Engine.open(folder, tools, **{"reranker": "overlap", **settings_})


@pytest.fixture(scope="session")
def saved_once(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "index"
    engine.save(folder)
    return folder


@pytest.fixture
def saved(saved_once: Path, models: Models, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved_once, tmp_path / "index"))


def version_of(folder: Path) -> Path:
    return folder / (folder / "CURRENT").read_text()


@pytest.mark.parametrize("backend", ["exact", "hnswlib", "auto"])
def test_what_is_saved_is_what_is_opened(
    make_engine: MakeEngine, models: Models, tmp_path: Path, backend: str
) -> None:
    engine = make_engine(dense={"backend": backend})
    engine.save(tmp_path)
    models.encoder.tools.clear()
    opened = open_engine(tmp_path, dense={"backend": backend})
    assert opened.encoded == 0
    assert models.encoder.tools == []
    assert opened.catalog == engine.catalog
    assert opened.catalog.fingerprint == engine.catalog.fingerprint
    assert answers(opened) == answers(engine)


def test_the_order_of_the_catalog_is_kept(make_engine: MakeEngine, tmp_path: Path) -> None:
    tools = list(reversed(make_tools(20)))
    make_engine(tools).save(tmp_path)
    assert list(open_engine(tmp_path).catalog) == tools


def test_an_opened_index_can_be_saved_and_opened_again(saved: Path, engine: Engine) -> None:
    open_engine(saved).save(saved)
    assert answers(open_engine(saved)) == answers(engine)


def test_an_opened_index_outlives_its_folder(saved: Path, engine: Engine) -> None:
    opened = open_engine(saved)
    shutil.rmtree(saved)
    assert answers(opened) == answers(engine)


def test_an_empty_catalog_is_saved_too(make_engine: MakeEngine, tmp_path: Path) -> None:
    make_engine([]).save(tmp_path)
    assert len(open_engine(tmp_path).catalog) == 0


def test_every_kind_of_tool_text_survives(make_engine: MakeEngine, tmp_path: Path) -> None:
    tools = [
        Tool("名前", "サーバ", '説明\nwith "quotes" and \\ and \u2028', {"type": "object"}),
        Tool("with spaces / slash", None, "x", id="../../etc/passwd", tags=("a", "ü")),
    ]
    make_engine(tools).save(tmp_path)
    assert list(open_engine(tmp_path).catalog) == tools


class TestChanges:
    def test_only_changed_tools_are_encoded(self, saved: Path, models: Models) -> None:
        tools = make_tools(100)
        changed = [
            Tool(tool.name, tool.server, f"Now different {number}", tool.input_schema)
            if number % 2
            else tool
            for number, tool in enumerate(tools)
        ]
        models.encoder.tools.clear()
        opened = open_engine(saved, changed)
        assert opened.encoded == len(models.encoder.tools) == 50
        assert all("different" in text.lower() for text in models.encoder.tools)

    def test_the_same_tools_encode_nothing(self, saved: Path) -> None:
        assert open_engine(saved, make_tools(100)).encoded == 0

    def test_a_changed_schema_alone_encodes_nothing(self, saved: Path, engine: Engine) -> None:
        tools = [
            Tool(t.name, t.server, t.description, t.input_schema, annotations={"readOnly": True})
            for t in make_tools(100)
        ]
        opened = open_engine(saved, tools)
        assert opened.encoded == 0
        assert opened.catalog.fingerprint != engine.catalog.fingerprint

    def test_removed_and_reordered_tools_encode_nothing(
        self, saved: Path, make_engine: MakeEngine
    ) -> None:
        tools = list(reversed(make_tools(100)))[::2]
        opened = open_engine(saved, tools)
        assert opened.encoded == 0
        assert answers(opened) == answers(make_engine(tools))

    def test_another_model_encodes_everything(self, saved: Path) -> None:
        assert open_engine(saved, encoder="other").encoded == 100
        assert open_engine(saved, make_tools(60), encoder="other").encoded == 60

    def test_another_backend_encodes_nothing(self, saved: Path, engine: Engine) -> None:
        opened = open_engine(saved, dense={"backend": "hnswlib"})
        assert opened.encoded == 0
        assert opened.search("issue", tier="embed").ids == engine.search("issue", tier="embed").ids

    def test_other_boosts_are_indexed_anew(self, saved: Path, make_engine: MakeEngine) -> None:
        boosts = {"backend": "tantivy", "boosts": {"description": 1.0}}
        assert answers(open_engine(saved, lexical=boosts)) == answers(make_engine(lexical=boosts))

    @pytest.mark.parametrize("tools", [0, 30])
    @pytest.mark.parametrize("before", ["lexical", "embed"])
    @pytest.mark.parametrize("backend", ["exact", "hnswlib"])
    def test_stages_that_were_not_saved_are_built(
        self, make_engine: MakeEngine, tmp_path: Path, tools: int, before: str, backend: str
    ) -> None:
        dense = {"backend": backend}
        make_engine(make_tools(tools), tiers=[before], dense=dense).save(tmp_path)
        opened = open_engine(tmp_path, dense=dense)
        assert opened.encoded == (tools if before == "lexical" else 0)
        assert answers(opened) == answers(make_engine(make_tools(tools), dense=dense))


class TestVersions:
    def test_saving_again_replaces_and_keeps_one_before(
        self, make_engine: MakeEngine, saved: Path
    ) -> None:
        engine = make_engine()
        for count in (10, 20, 30):
            engine.update(make_tools(count))
            engine.save(saved)
            assert len(open_engine(saved).catalog) == count
        assert len(list(saved.glob("v-*"))) == 2

    def test_what_a_crash_left_is_cleared_and_not_read(self, engine: Engine, saved: Path) -> None:
        (saved / "v-000007").mkdir()
        (saved / "v-000007" / "tools.jsonl").write_text("half a li")
        (saved / "CURRENT.new").write_text("v-0000")
        assert len(open_engine(saved).catalog) == 100
        engine.save(saved)
        assert not (saved / "v-000007").exists()
        assert version_of(saved).name == "v-000008"
        assert len(open_engine(saved).catalog) == 100

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

    @pytest.mark.parametrize("wrong", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
    @pytest.mark.parametrize(
        "place", ["_write_lexical", "_write", "_make_current", "_flush", "_sha256", "np.save"]
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
            patch.setattr(f"shortlist.retrieval.store.{place}", fail)
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

    def test_foreign_folders_are_left_alone(self, engine: Engine, saved: Path) -> None:
        (saved / "v-mine").mkdir()
        (saved / "notes.txt").write_text("keep")
        engine.save(saved)
        assert (saved / "v-mine").is_dir()
        assert (saved / "notes.txt").read_text() == "keep"

    def test_a_second_writer_gets_an_error(
        self, engine: Engine, saved: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "_LOCK_SECONDS", 0.2)
        with (
            FileLock(saved / "LOCK"),
            pytest.raises(StoreError, match="another process has been writing"),
        ):
            engine.save(saved)
        engine.save(saved)

    def test_a_reader_needs_no_lock(self, saved: Path) -> None:
        with FileLock(saved / "LOCK"):
            assert len(open_engine(saved).catalog) == 100

    def test_a_folder_that_cannot_be_written(self, engine: Engine, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreError, match="cannot be written"):
            engine.save(tmp_path / "file" / "index")

    def test_a_version_removed_while_it_is_opened_gives_the_newer_one(
        self, make_engine: MakeEngine, models: Models, tmp_path: Path
    ) -> None:
        dense = {"backend": "hnswlib"}
        engine = make_engine(dense=dense)
        engine.save(tmp_path)
        load_encoder, saves = models.encoders.copy(), iter([10, 20])

        class SlowToLoad(dict[str, Any]):
            def __getitem__(self, spec: str) -> Any:
                for count in saves:
                    engine.update(make_tools(count))
                    engine.save(tmp_path)
                return load_encoder[spec]

        models.encoders = SlowToLoad()
        assert len(open_engine(tmp_path, dense=dense).catalog) == 20


class TestDamage:
    def files(self, saved: Path) -> list[Path]:
        return sorted(
            path
            for path in version_of(saved).rglob("*")
            if path.is_file() and not path.name.startswith(".")
        )

    def test_nothing_saved(self, models: Models, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "absent"):
            with pytest.raises(StoreError, match="not a saved index"):
                open_engine(folder)
        (tmp_path / "file").write_text("x")
        with pytest.raises(StoreError, match="not a saved index"):
            open_engine(tmp_path / "file")

    @pytest.mark.parametrize(
        "content", [b"", b"garbage", b"v-../../x", b"\xff\xfe", b"v-", b"v-999999", b"v-1\n2"]
    )
    def test_a_damaged_current(self, saved: Path, content: bytes) -> None:
        (saved / "CURRENT").write_bytes(content)
        with pytest.raises(StoreError):
            open_engine(saved)

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
        engine.update(make_tools(30))
        engine.save(saved)
        assert len(open_engine(saved).catalog) == 30
        # Either of the complete versions may have been the current one.
        names = ["v-000001", "v-000002", "v-000009"]
        assert sorted(path.name for path in saved.glob("v-*")) == names
        engine.save(saved)
        names = ["v-000009", "v-000010"]
        assert sorted(path.name for path in saved.glob("v-*")) == names

    def test_every_file_lacking(self, saved: Path) -> None:
        for path in self.files(saved):
            content = path.read_bytes()
            path.unlink()
            with pytest.raises(StoreError):
                open_engine(saved)
            path.write_bytes(content)
        assert len(open_engine(saved).catalog) == 100

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_every_file_cut(self, saved: Path, share: float) -> None:
        for path in self.files(saved):
            content = path.read_bytes()
            if content:
                path.write_bytes(content[: int(len(content) * share)])
                with pytest.raises(StoreError):
                    open_engine(saved)
                path.write_bytes(content)
        assert len(open_engine(saved).catalog) == 100

    def test_every_file_longer(self, saved: Path) -> None:
        for path in self.files(saved):
            content = path.read_bytes()
            path.write_bytes(content + b"\x00")
            with pytest.raises(StoreError):
                open_engine(saved)
            path.write_bytes(content)

    def test_other_tools_than_were_saved(self, saved: Path) -> None:
        path = version_of(saved) / "tools.jsonl"
        path.write_text(path.read_text().replace("Create", "Crease"))
        with pytest.raises(StoreError, match="not the content that was saved"):
            open_engine(saved)

    def test_another_format(self, saved: Path) -> None:
        path = version_of(saved) / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
        with pytest.raises(StoreError, match="format 99, this version reads 4"):
            open_engine(saved)

    @pytest.mark.parametrize("key", ["format", "catalog", "model", "settings", "files"])
    @pytest.mark.parametrize("value", [None, 5, "x", [1], {"x": [2]}, {"x": -1}])
    def test_a_manifest_of_the_wrong_shape(self, saved: Path, key: str, value: Any) -> None:
        path = version_of(saved) / "manifest.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
        opens_or_refuses(saved)
        manifest = json.loads(path.read_text())
        del manifest[key]
        path.write_text(json.dumps(manifest))
        with pytest.raises(StoreError):
            open_engine(saved)

    @pytest.mark.parametrize("text", ["", "[]", "null", "5", '"x"', "[" * 100_000, "{"])
    def test_a_manifest_that_is_none(self, saved: Path, text: str) -> None:
        (version_of(saved) / "manifest.json").write_text(text)
        with pytest.raises(StoreError):
            open_engine(saved)

    @settings(
        deadline=None,
        max_examples=100,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_a_flipped_bit_is_refused_or_changes_no_answer(
        self, saved: Path, engine: Engine, data: st.DataObject
    ) -> None:
        path = data.draw(st.sampled_from(self.files(saved)))
        content = path.read_bytes()
        place = data.draw(st.integers(0, max(0, len(content) - 1)))
        flipped = bytearray(content)
        flipped[place : place + 1] = bytes(
            byte ^ 1 << data.draw(st.integers(0, 7)) for byte in flipped[place : place + 1]
        )
        path.write_bytes(flipped)
        try:
            opened = open_engine(saved)
        except StoreError:
            return
        finally:
            path.write_bytes(content)
        assert path.name == "manifest.json" or flipped == content
        assert answers(opened) == answers(engine)


def opens_or_refuses(folder: Path) -> None:
    try:
        engine = open_engine(folder)
        for tier in engine.tiers:
            engine.search("create an issue", tier=tier)
    except ShortlistError:
        pass


def test_the_bundled_encoder_reopens_with_50_changes(tmp_path: Path) -> None:
    tools = make_tools(120)
    Engine.from_tools(tools).save(tmp_path)
    assert Engine.open(tmp_path).encoded == 0
    changed = [
        Tool(tool.name, tool.server, "Other words altogether " + str(i)) if i < 50 else tool
        for i, tool in enumerate(tools)
    ]
    opened = Engine.open(tmp_path, Catalog(changed))
    assert opened.encoded == 50
    fresh = Engine.from_tools(changed)
    for query in QUERIES:
        one, other = (e.search(query, tier="embed", k=20) for e in (opened, fresh))
        assert one.ids == other.ids


@pytest.mark.parametrize("tiers", [["lexical"], ["lexical", "embed", "hybrid"]])
def test_a_folder_that_cannot_be_written_is_opened_without_a_copy(
    make_engine: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiers: list[str]
) -> None:
    engine = make_engine(tiers=tiers)
    engine.save(tmp_path / "index")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*")}
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("shortlist.retrieval.lexical.os.access", lambda *_: False)
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

    graph = engine._index.dense.index  # type: ignore[union-attr]
    monkeypatch.setattr(graph, "_graph", Cut(graph._graph))
    with pytest.raises(StoreError, match=r"4 of .* bytes written"):
        engine.save(tmp_path)
    assert list(tmp_path.glob("v-*")) == []


FULL_DISK = """
import resource, sys
from pathlib import Path
from shortlist import Engine, builder
from shortlist.errors import StoreError
from tests.engine.fakes import BagEncoder, make_tools

builder.load_encoder = lambda *_, **__: BagEncoder()
folder = Path(sys.argv[1])
settings = {"tiers": ["lexical", "embed"], "dense": {"backend": sys.argv[2]}}
engine = Engine.from_tools(make_tools(200), **settings)
engine.save(folder)
size = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
engine.update(make_tools(210))
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
@pytest.mark.parametrize("backend", ["exact", "hnswlib"])
@pytest.mark.parametrize("size", [4, 500, 20_000])
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
