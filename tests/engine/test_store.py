"""An index on disk: what is saved is what is opened, and damage is an error, not an answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shortlist import Catalog, Engine, Tool
from shortlist.errors import ShortlistError, StoreError
from shortlist.retrieval.store import versions as store

from .conftest import TIERS, Models
from .fakes import make_tools
from .saved import QUERIES, answers, open_engine, version_of

MakeEngine = Callable[..., Engine]


@pytest.mark.parametrize("backend", ["exact", "hnswlib", "auto"])
def test_what_is_saved_is_what_is_opened(
    make_engine: MakeEngine, models: Models, tmp_path: Path, backend: str
) -> None:
    engine = make_engine(dense={"backend": backend})
    engine.save(tmp_path)
    models.encoder.tools.clear()
    opened = open_engine(tmp_path, dense={"backend": backend})
    assert opened.build_progress.newly_encoded == 0
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
        assert opened.build_progress.newly_encoded == len(models.encoder.tools) == 50
        assert all("different" in text.lower() for text in models.encoder.tools)

    def test_the_same_tools_encode_nothing(self, saved: Path) -> None:
        assert open_engine(saved, make_tools(100)).build_progress.newly_encoded == 0

    def test_a_changed_schema_alone_encodes_nothing(self, saved: Path, engine: Engine) -> None:
        tools = [
            Tool(t.name, t.server, t.description, t.input_schema, annotations={"readOnly": True})
            for t in make_tools(100)
        ]
        opened = open_engine(saved, tools)
        assert opened.build_progress.newly_encoded == 0
        assert opened.catalog.fingerprint != engine.catalog.fingerprint

    def test_removed_and_reordered_tools_encode_nothing(
        self, saved: Path, make_engine: MakeEngine
    ) -> None:
        tools = list(reversed(make_tools(100)))[::2]
        opened = open_engine(saved, tools)
        assert opened.build_progress.newly_encoded == 0
        assert answers(opened) == answers(make_engine(tools))

    def test_another_model_encodes_everything(self, saved: Path) -> None:
        assert open_engine(saved, encoder="other").build_progress.newly_encoded == 100
        assert (
            open_engine(saved, make_tools(60), encoder="other").build_progress.newly_encoded == 60
        )

    def test_another_backend_encodes_nothing(self, saved: Path, engine: Engine) -> None:
        opened = open_engine(saved, dense={"backend": "hnswlib"})
        assert opened.build_progress.newly_encoded == 0
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
        opened = open_engine(tmp_path, dense=dense, tiers=TIERS)
        assert opened.build_progress.newly_encoded == (tools if before == "lexical" else 0)
        assert answers(opened) == answers(make_engine(make_tools(tools), dense=dense))


class TestVersions:
    def test_saving_again_replaces_and_keeps_one_before(
        self, make_engine: MakeEngine, saved: Path
    ) -> None:
        engine = make_engine()
        for count in (10, 20, 30):
            engine.replace(make_tools(count))
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

    def test_a_version_removed_while_it_is_opened_is_opened_whole(
        self, make_engine: MakeEngine, models: Models, tmp_path: Path
    ) -> None:
        dense = {"backend": "hnswlib"}
        engine = make_engine(dense=dense)
        engine.save(tmp_path)
        load_encoder, saves = models.encoders.copy(), iter([10, 20])

        class SlowToLoad(dict[str, Any]):
            def __getitem__(self, spec: str) -> Any:
                for count in saves:
                    engine.replace(make_tools(count))
                    engine.save(tmp_path)
                return load_encoder[spec]

        models.encoders = SlowToLoad()
        assert answers(open_engine(tmp_path, dense=dense)) == answers(make_engine(dense=dense))
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
        with pytest.raises(StoreError, match="format 99, this version reads 7"):
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


@pytest.mark.no_cover
def test_the_bundled_encoder_reopens_with_50_changes(tmp_path: Path) -> None:
    tools = make_tools(120)
    Engine.from_tools(tools).save(tmp_path)
    assert Engine.open(tmp_path).build_progress.newly_encoded == 0
    changed = [
        Tool(tool.name, tool.server, "Other words altogether " + str(i)) if i < 50 else tool
        for i, tool in enumerate(tools)
    ]
    opened = Engine.open(tmp_path, Catalog(changed))
    assert opened.build_progress.newly_encoded == 50
    fresh = Engine.from_tools(changed)
    for query in QUERIES:
        one, other = (e.search(query, tier="embed", k=20) for e in (opened, fresh))
        assert one.ids == other.ids
