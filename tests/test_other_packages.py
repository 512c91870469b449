"""Parts of other packages, with and without settings, and what a setting rebuilds when opened."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from shortlist import Config, Engine, Tool
from shortlist.indexing.configured_tiers import strategies
from shortlist.models import load_encoder
from shortlist.registry import NoSettings
from shortlist.retrieval.backends.exact import ExactIndex
from shortlist.retrieval.backends.hnsw import HnswIndex, HnswSettings
from shortlist.retrieval.backends.tantivy import TantivyIndex
from shortlist.settings import PartSettings

from .engine.fakes import BagEncoder, OverlapReranker
from .test_settings import Register, message_of

TOOLS = [Tool("create_issue"), Tool("list_branches"), Tool("send_message")]


class KeenSettings(PartSettings):
    factor: float = Field(default=1.0, gt=0)
    search_only: ClassVar[frozenset[str]] = frozenset({"factor"})


class KeenIndex(ExactIndex):
    """A dense index of another package, with settings."""

    Settings = KeenSettings
    made: ClassVar[list[float]] = []

    @classmethod
    def build(cls, vectors: Any, *, factor: float) -> Any:
        cls.made.append(factor)
        return super().build(vectors)


class PlainIndex(ExactIndex):
    """A dense index of another package, without settings."""


class BoostlessLexical(TantivyIndex):
    """A lexical index of another package that has no setting, not even boosts."""

    Settings = NoSettings


class SloppySettings(BaseModel):
    """Does not say what happens to unknown keys, and is not frozen."""

    size: int = 3


class SloppyIndex(ExactIndex):
    Settings = SloppySettings

    @classmethod
    def build(cls, vectors: Any, *, size: int) -> Any:
        return super().build(vectors)


class BrokenIndex(ExactIndex):
    Settings = "size"


class ClashSettings(PartSettings):
    depth: int = 1


class Clash:
    Settings = ClashSettings


class AcmeSettings(PartSettings):
    model: str
    threads: int | None = None
    words: tuple[str, ...] = ()


class AcmeEncoder(BagEncoder):
    Settings = AcmeSettings

    def __init__(self, model: str, threads: int | None, words: tuple[str, ...]) -> None:
        super().__init__(f"{model} {threads} {list(words)}")


class PlainReranker(OverlapReranker):
    """A reranker of another package, without settings."""

    def __init__(self) -> None:
        super().__init__("plain")


class Halving:
    """A strategy of another package, with a setting beside those of every tier."""

    class Settings(PartSettings):
        keep: int = Field(default=2, ge=1)

    def __init__(self, *, retrievers: Any, fallback: Any, keep: int, **others: Any) -> None:
        self.stage, self.fallback, self.keep = retrievers[0], fallback, keep

    def rank(self, run: Any) -> Any:
        return run.retrieve(self.stage, self.keep)


class TestOfOtherPackages:
    def test_a_backend_with_settings(self, packages: Register) -> None:
        packages("dense", "keen", f"{__name__}:KeenIndex")
        packages("encoder", "acme", f"{__name__}:AcmeEncoder")
        Engine.from_tools(TOOLS, dense={"backend": "keen", "factor": 2.5}, encoder="acme:tiny")
        assert KeenIndex.made[-1] == 2.5
        assert message_of({"dense": {"backend": "keen", "factr": 1}}) == (
            "dense.factr: unknown setting of keen; use one of: factor, backend"
        )
        assert "dense.factor: for keen, " in message_of({"dense": {"backend": "keen", "factor": 0}})

    def test_a_backend_without_settings_takes_none(self, packages: Register) -> None:
        packages("dense", "plain", f"{__name__}:PlainIndex")
        packages("encoder", "acme", f"{__name__}:AcmeEncoder")
        Engine.from_tools(TOOLS, dense={"backend": "plain"}, encoder="acme:tiny")
        assert message_of({"dense": {"backend": "plain", "links": 1}}) == (
            "dense.links: unknown setting of plain; use one of: backend"
        )

    def test_a_lexical_index_without_boosts_is_built_with_the_usual_ones(
        self, packages: Register, tmp_path: Path
    ) -> None:
        packages("lexical", "boostless", f"{__name__}:BoostlessLexical")
        settings: dict[str, Any] = {"tiers": ["lexical"], "lexical": {"backend": "boostless"}}
        engine = Engine.from_tools(TOOLS, **settings)
        engine.save(tmp_path)
        for each in (engine, Engine.open(tmp_path, **settings)):
            assert each.search("issue", k=1).ids == ("create_issue",)
        assert message_of({"lexical": {"backend": "boostless", "boosts": {}}}) == (
            "lexical.boosts: unknown setting of boostless; use one of: backend"
        )

    def test_settings_that_ignore_unknown_keys_still_refuse_them(self, packages: Register) -> None:
        packages("dense", "sloppy", f"{__name__}:SloppyIndex")
        assert message_of({"dense": {"backend": "sloppy", "sise": 1}}) == (
            "dense.sise: unknown setting of sloppy; use one of: size, backend"
        )

    def test_settings_that_are_no_model_are_named(self, packages: Register) -> None:
        packages("dense", "broken", f"{__name__}:BrokenIndex")
        assert "dense.backend: dense backend 'broken': its Settings is no pydantic" in message_of(
            {"dense": {"backend": "broken"}}
        )

    def test_settings_named_like_those_of_every_tier_are_refused(self, packages: Register) -> None:
        packages("strategy", "clash", f"{__name__}:Clash")
        assert "every section has the keys depth" in message_of(
            {"tiers": {"mine": {"retrievers": ["dense"], "strategy": "clash"}}}
        )

    def test_a_part_that_cannot_be_imported(self, packages: Register) -> None:
        packages("encoder", "gone", "no_such_package:Encoder")
        assert re.match("encoder.name: .*'gone'.*no_such_package", message_of({"encoder": "gone"}))

    def test_an_encoder_and_its_settings(self, packages: Register) -> None:
        packages("encoder", "acme", f"{__name__}:AcmeEncoder")
        assert load_encoder("acme:tiny", threads=2).name == "tiny 2 []"
        table = {"name": "acme", "model": "big", "words": ["a"]}
        engine = Engine.from_tools(TOOLS, encoder=table, threads=3)
        assert engine._version.index.encoder.name == "big 3 ['a']"
        assert (
            message_of({"encoder": "acme"}) == "encoder.model: for acme, this setting is required"
        )
        assert message_of({"encoder": {"name": "acme:x", "word": 1}}) == (
            "encoder.word: unknown setting of acme; use one of: model, threads, words, name"
        )

    def test_a_reranker_without_settings(self, packages: Register) -> None:
        packages("encoder", "acme", f"{__name__}:AcmeEncoder")
        packages("reranker", "plain", f"{__name__}:PlainReranker")
        engine = Engine.from_tools(TOOLS, encoder="acme:tiny", reranker="plain", threads=2)
        found = engine.search("create issue", tier="rerank", k=1)
        assert (found.ids, found.tier) == (("create_issue",), "rerank")
        assert message_of({"reranker": {"name": "plain", "threads": 1}}) == (
            "reranker.threads: unknown setting of plain; use one of: name"
        )

    def test_a_strategy_and_its_settings(self, packages: Register) -> None:
        packages("strategy", "halving", f"{__name__}:Halving")
        tier = {"strategy": "halving", "retrievers": ["lexical"]}
        for keep, settings in ((2, {}), (1, {"keep": 1})):
            config = Config(tiers={"mine": {**tier, **settings}})
            assert strategies(config)["mine"].keep == keep
        message = message_of({"tiers": {"mine": {**tier, "kep": 1}}})
        assert message.startswith("tiers.mine.kep: unknown setting of halving; use one of: keep, ")


class TestSavedIndexes:
    """A setting that a saved index depends on rebuilds that part, no other does."""

    @pytest.fixture
    def built(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        build = HnswIndex.build.__func__  # type: ignore[attr-defined]

        def counted(cls: Any, vectors: Any, **settings: Any) -> Any:
            calls.append(settings)
            return build(cls, vectors, **settings)

        monkeypatch.setattr(HnswIndex, "build", classmethod(counted))
        return calls

    @pytest.fixture
    def saved(self, packages: Register, tmp_path: Path, built: list[Any]) -> Callable[..., Engine]:
        pytest.importorskip("hnswlib")
        packages("encoder", "acme", f"{__name__}:AcmeEncoder")
        dense = {"backend": "hnswlib", "links": 8}
        Engine.from_tools(TOOLS, encoder="acme:tiny", dense=dense).save(tmp_path)
        built.clear()
        return lambda **changed: Engine.open(
            tmp_path, encoder="acme:tiny", dense={**dense, **changed}
        )

    def test_the_same_settings_open_what_is_saved(self, saved: Any, built: list[Any]) -> None:
        assert saved()._version.index.dense.index._settings == HnswSettings(links=8)
        assert not built

    @pytest.mark.parametrize("changed", [{"links": 9}, {"build_ef": 50}])
    def test_a_setting_of_the_graph_rebuilds_it(
        self, saved: Any, built: list[Any], changed: dict[str, int]
    ) -> None:
        saved(**changed)
        assert built == [{"links": 8, "build_ef": 200, "search_ef": 200, **changed}]

    def test_a_setting_of_the_search_rebuilds_nothing(self, saved: Any, built: list[Any]) -> None:
        assert saved(search_ef=77)._version.index.dense.index._settings.search_ef == 77
        assert not built

    def test_what_is_saved_of_the_default_parts_is_as_before(self) -> None:
        config = Config()
        assert config.lexical.saved_form() == {
            "backend": "tantivy",
            "boosts": {"all": 1.0, "name": 0.1, "server": 0.4, "parameters": 0.2},
        }
        assert config.dense.saved_form() == {"backend": "exact"}
