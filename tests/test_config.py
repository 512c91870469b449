"""Config: from TOML, JSON or keywords, and errors that list what there is."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist import Config, Engine, Tool, registry
from shortlist.config import TierConfig
from shortlist.errors import ConfigError, MissingExtraError
from shortlist.gating import Rule, milestone

BUILT_IN = ["lexical", "fast", "embed", "hybrid", "rerank"]
#: Without a reranker.
OFFERED = BUILT_IN[:-1]
NO_RERANKER = r'no reranker is set.*`reranker = "mixedbread-ai/.*\.\[hub\]'
TOML = """
encoder = "bundled"
reranker = "some/model"
threads = 2
k = 5
default_tier = "keen"

[lexical]
backend = "tantivy"
boosts = { name = 2.0, description = 1.0 }

[dense]
backend = "hnswlib"

[fusion]
method = "rrf"
k = 30
weights = { lexical = 0.5 }

[tiers.keen]
retrievers = ["lexical", "dense"]
depth = 50
fallback = "lexical"

[tiers.rerank]
candidates = 7
"""
SAME = {
    "encoder": "bundled",
    "reranker": "some/model",
    "threads": 2,
    "k": 5,
    "default_tier": "keen",
    "lexical": {"backend": "tantivy", "boosts": {"name": 2.0, "description": 1.0}},
    "dense": {"backend": "hnswlib"},
    "fusion": {"method": "rrf", "k": 30, "weights": {"lexical": 0.5}},
    "tiers": {
        "keen": {"retrievers": ["lexical", "dense"], "depth": 50, "fallback": "lexical"},
        "rerank": {"candidates": 7},
    },
}

#: Every kind of part with settings of its own.
TABLES: dict[str, Any] = {
    "encoder": {"name": "bundled", "threads": 1},
    "reranker": {"name": "sentence-transformers:some/model", "threads": 3},
    "lexical": {"boosts": {"name": 1.0}},
    "dense": {"backend": "hnswlib", "links": 24, "search_ef": 300},
    "fusion": {"method": "rrf", "k": 10.0, "weights": {"dense": 2.0}},
    "tiers": {
        "mine": {
            "retrievers": ["lexical", "dense"],
            "fusion": {"method": "linear", "weights": {"lexical": 0.1}},
            "reranker": {"name": "a/folder", "threads": 2},
        }
    },
}


def test_toml_json_keywords_and_mappings_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "shortlist.toml").write_text(TOML)
    (tmp_path / "shortlist.json").write_text(json.dumps(SAME))
    config = Config(**SAME)
    assert Config.read(tmp_path / "shortlist.toml") == config
    assert Config.read(str(tmp_path / "shortlist.json")) == config
    assert Config.read(SAME) == config
    assert config.fusion.part_arguments() == {"k": 30, "weights": {"lexical": 0.5}}


def test_the_defaults() -> None:
    config = Config()
    assert list(config.tiers) == OFFERED
    assert config.reranker is None
    assert (config.default_tier, config.k, config.dense.backend) == ("hybrid", 10, "exact")
    assert config == Config()


class TestTiers:
    def test_a_table_adds_tiers_and_changes_single_settings(self) -> None:
        tiers = Config(**SAME).tiers
        assert list(tiers) == [*BUILT_IN, "keen"]
        assert tiers["rerank"].candidates == 7
        assert tiers["rerank"].retrievers == ("lexical", "dense")
        assert tiers["rerank"].reranker == "default"
        assert tiers["hybrid"] == Config().tiers["hybrid"]

    def test_a_list_offers_only_those(self) -> None:
        config = Config(tiers=["lexical", "rerank"], reranker="some/model")
        assert list(config.tiers) == ["lexical", "rerank"]
        assert config.default_tier == "rerank"
        assert Config(tiers=["hybrid", "lexical"]).default_tier == "hybrid"
        assert Config(tiers=["embed", "hybrid"], default_tier="embed").default_tier == "embed"

    def test_tiers_built_in_code_join_the_built_in_ones(self) -> None:
        mine = TierConfig(retrievers=("dense",), depth=9)
        config = Config(tiers={"mine": mine, "hybrid": {"depth": 30}})
        assert list(config.tiers) == [*OFFERED, "mine"]
        assert config.tiers["mine"] is mine or config.tiers["mine"] == mine
        assert config.tiers["hybrid"].depth == 30

    def test_a_reranker_adds_the_tier_rerank(self) -> None:
        config = Config(reranker="some/model")
        assert list(config.tiers) == BUILT_IN
        tier = config.tiers["rerank"]
        assert (tier.retrievers, tier.candidates) == (("lexical", "dense"), 40)
        assert (tier.reranker, tier.fallback) == ("default", "hybrid")
        assert config.tiers["hybrid"] == Config().tiers["hybrid"]

    def test_a_tier_rerank_with_a_reranker_of_its_own_needs_no_other(self) -> None:
        config = Config(tiers={"rerank": {"reranker": "some/model", "candidates": 3}})
        assert list(config.tiers) == BUILT_IN
        assert config.tiers["rerank"].retrievers == ("lexical", "dense")
        assert config.tiers["rerank"].candidates == 3

    @pytest.mark.parametrize(
        "given_",
        [
            {"tiers": ["rerank"]},
            {"tiers": {"rerank": {"candidates": 3}}},
            {"tiers": {"mine": {"retrievers": ["dense"], "reranker": "default"}}},
            {"tiers": {"embed": {"fallback": "rerank"}}},
            {"default_tier": "rerank"},
        ],
    )
    def test_a_tier_that_reranks_without_a_reranker_names_the_line_to_add(
        self, given_: dict[str, Any]
    ) -> None:
        with pytest.raises(ConfigError, match=NO_RERANKER):
            Config(**given_)
        Config(**given_, reranker="some/model")

    def test_a_tier_without_retrievers_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"tiers\.mine\.retrievers"):
            Config(tiers={"mine": {}})
        with pytest.raises(ConfigError, match=r"tiers\.mine\.retrievers"):
            Config(tiers={"mine": {"retrievers": []}})

    def test_a_fallback_that_is_no_tier_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"tiers\.mine.*'nope'.*lexical, fast, embed"):
            Config(tiers={"mine": {"retrievers": ["dense"], "fallback": "nope"}})

    @pytest.mark.parametrize(
        ("names", "fallback"),
        [
            (["lexical", "embed"], "lexical"),
            (["lexical", "fast", "embed"], "fast"),
            (["embed"], None),
        ],
    )
    def test_chosen_tiers_fall_back_past_those_left_out(
        self, names: list[str], fallback: str | None
    ) -> None:
        assert Config(tiers=names).tiers["embed"].fallback == fallback

    def test_fallbacks_that_go_round_are_refused(self) -> None:
        with pytest.raises(ConfigError, match="form a cycle"):
            Config(tiers={"fast": {"fallback": "hybrid"}})
        with pytest.raises(ConfigError, match="form a cycle"):
            Config(tiers={"mine": {"retrievers": ["dense"], "fallback": "mine"}})

    def test_built_in_fallbacks_left_out_by_a_list_are_no_error(self) -> None:
        assert Config(tiers=["hybrid"]).tiers["hybrid"].fallback is None


class TestRefused:
    @pytest.mark.parametrize(
        ("given_", "place", "known"),
        [
            ({"encodr": "x"}, "encodr", "encoder, reranker, threads"),
            ({"trust": {"scn": True}}, "trust.scn", "scan, pins, approved"),
        ],
    )
    def test_an_unknown_setting_lists_the_known(
        self, given_: dict[str, Any], place: str, known: str
    ) -> None:
        with pytest.raises(ConfigError) as caught:
            Config(**given_)
        message = str(caught.value)
        assert message.startswith(f"{place}: unknown setting; use one of: ")
        assert known in message

    @pytest.mark.parametrize(
        ("kind", "given_"),
        [
            ("lexical", {"lexical": {"backend": "lucene"}}),
            ("dense", {"dense": {"backend": "lucene"}}),
            ("fusion", {"fusion": {"method": "lucene"}}),
            ("fusion", {"tiers": {"hybrid": {"fusion": {"method": "lucene"}}}}),
            ("strategy", {"tiers": {"hybrid": {"strategy": "lucene"}}}),
        ],
    )
    def test_an_unknown_backend_lists_the_known(self, kind: str, given_: dict[str, Any]) -> None:
        known = ", ".join(registry.names(kind))
        with pytest.raises(ConfigError, match=rf"no {kind} backend 'lucene'; use one of: {known}"):
            Config(**given_)

    @pytest.mark.parametrize(
        ("given_", "message"),
        [
            ({"k": 0}, "^k: "),
            ({"k": "many"}, "^k: "),
            ({"threads": 0}, "^threads: "),
            (
                {"default_tier": "turbo"},
                "default_tier 'turbo'.*lexical, fast, embed, hybrid$",
            ),
            ({"tiers": ["turbo"]}, "no built-in tier turbo; use one of: lexical, fast, embed"),
            ({"tiers": []}, "tier"),
            ({"tiers": [["hybrid"]]}, "tier"),
            ({"tiers": 5}, "^tiers: "),
            ({"tiers": {"mine": 5}}, r"^tiers\.mine: "),
            ({"tiers": {"hybrid": {"retrievers": ["graph"]}}}, "no retriever graph; use one of: "),
            ({"tiers": {"hybrid": {"depth": 0}}}, r"^tiers\.hybrid\.depth: "),
            ({"tiers": {"hybrid": {"candidates": 100_000}}}, r"^tiers\.hybrid\.candidates: "),
            ({"lexical": {"boosts": {"nme": 1}}}, "no field nme; use one of: .*name, title"),
            ({"lexical": {"boosts": {"name": -1}}}, r"^lexical\.boosts.*name"),
            ({"lexical": {"boosts": {"name": float("nan")}}}, r"^lexical\.boosts.*name"),
            ({"lexical": {"boosts": {"name": float("inf")}}}, r"^lexical\.boosts.*name"),
            ({"lexical": {"boosts": {"name": 0.0}}}, r"^lexical\.boosts.*above 0"),
            ({"lexical": "tantivy"}, "^lexical: "),
        ],
    )
    def test_a_value_that_cannot_be(self, given_: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Config(**given_)

    def test_every_problem_is_named_at_once(self) -> None:
        with pytest.raises(ConfigError, match=r"dense\.x: .*; k: "):
            Config(k=0, dense={"x": 1})

    def test_the_constructor_raises_the_same_error(self) -> None:
        with pytest.raises(ConfigError, match=r"^k: "):
            Config(k=0)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("a.toml", "k = "),
            ("a.json", "{"),
            ("a.json", "[1]"),
            ("a.json", "null"),
            ("a.json", "[" * 50_000),
            ("a.toml", "encodr = 1"),
            ("a.json", '{"k": 0}'),
        ],
    )
    def test_a_bad_file_is_named(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError, match=re.escape(str(tmp_path / name))):
            Config.read(tmp_path / name)

    def test_a_file_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
        for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "bytes.toml"):
            with pytest.raises(ConfigError, match=re.escape(str(path))):
                Config.read(path)

    def test_a_missing_extra_names_its_install_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "hnswlib", None)
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[hnsw\]'"):
            Engine.from_tools([Tool("a")], dense={"backend": "hnswlib"})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 50)
    | st.floats()
    | st.sampled_from([*BUILT_IN, "dense", "rrf", "exact", "hnswlib", "pipeline", "default", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("retrievers", "fusion", "method", "backend", "strategy", "reranker"),
                    *("boosts", "name", "depth", "links", "threads", "model", "k", *BUILT_IN),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from([*Config.model_fields, "other"]), VALUES, max_size=4))
@example({"tiers": [[]]})
@example({"tiers": {"hybrid": {"retrievers": [[]]}}})
def test_any_settings_are_a_config_or_a_config_error(given_: dict[str, Any]) -> None:
    try:
        config = Config(**given_)
    except ConfigError:
        return
    assert config.default_tier in config.tiers


def test_a_config_is_immutable_and_comparable() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.k = 3  # type: ignore[misc]
    assert config != Config(k=3)


def test_a_dump_reads_back() -> None:
    for config in (Config(), Config(**SAME), Config(**TABLES)):
        assert Config(**config.model_dump()) == config
        assert Config.read(json.loads(config.model_dump_json())) == config


class TestPathsOfAFile:
    SETTINGS: ClassVar[dict[str, Any]] = {
        "encoder": "models/mine",
        "reranker": {"name": "./judge", "threads": 1},
        "tiers": {"rerank": {"reranker": "models/mine"}},
        "index": {"example_queries": ["library", "asked.jsonl", "/srv/all.jsonl"]},
        "trust": {"pins": "../pins.json"},
        "abstention": "decision.json",
        "session": {"summaries": "s.json", "events": "~/e.jsonl"},
    }

    @pytest.mark.parametrize("suffix", [".json", ".toml"])
    def test_they_start_at_its_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
    ) -> None:
        folder, elsewhere = tmp_path / "settings", tmp_path / "elsewhere"
        (folder / "models" / "mine").mkdir(parents=True)
        elsewhere.mkdir()
        file = folder / f"shortlist{suffix}"
        file.write_text(json.dumps(self.SETTINGS) if suffix == ".json" else PATHS_TOML)
        monkeypatch.chdir(elsewhere)
        for path in (file, Path("..") / "settings" / file.name):
            config = Config.read(path)
            assert Path(str(config.encoder)).samefile(folder / "models" / "mine")
            judge = config.model_arguments(config.reranker or "")[0]
            assert Path(judge).resolve() == folder / "judge"
            assert Path(str(config.tiers["rerank"].reranker)).samefile(folder / "models" / "mine")
            library, near, absolute = config.index.example_queries
            assert (library, absolute) == ("library", Path("/srv/all.jsonl"))
            assert Path(near).resolve() == folder / "asked.jsonl"
            assert Path(str(config.trust.pins)).resolve() == tmp_path / "pins.json"
            assert Path(config.abstention).resolve() == folder / "decision.json"
            assert Path(str(config.session.summaries)).resolve() == folder / "s.json"
            assert config.session.events == Path.home() / "e.jsonl"

    def test_names_and_mappings_stay_as_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "shortlist-embed").mkdir()
        named = {"encoder": "shortlist-embed", "reranker": "some/model", "abstention": "off"}
        file = tmp_path / "c.json"
        file.write_text(json.dumps(named))
        config = Config.read(file)
        assert (config.encoder, config.reranker, config.abstention) == tuple(named.values())
        assert Config.read({"trust": {"pins": "pins.json"}}).trust.pins == Path("pins.json")

    @pytest.mark.parametrize(
        "values",
        [
            {"trust": {"pins": 7}},
            {"index": {"example_queries": [7]}},
            {"index": 7},
            {"tiers": {"hybrid": 7}},
            {"encoder": 7},
            {"abstention": 7},
        ],
    )
    def test_wrong_values_are_still_named(self, tmp_path: Path, values: dict[str, Any]) -> None:
        (tmp_path / "c.json").write_text(json.dumps(values))
        with pytest.raises(ConfigError, match=f"c.json: {next(iter(values))}"):
            Config.read(tmp_path / "c.json")

    def test_an_engine_is_made_in_another_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, elsewhere = tmp_path / "settings", tmp_path / "elsewhere"
        folder.mkdir()
        elsewhere.mkdir()
        row = {"tool": "billing/list", "requests": ["who owes us money"]}
        (folder / "asked.jsonl").write_text(json.dumps(row))
        (folder / "c.toml").write_text(
            'tiers = ["lexical"]\n[index]\nexample_queries = ["asked.jsonl"]\n'
        )
        monkeypatch.chdir(elsewhere)
        engine = Engine.from_tools(TOOLS_OF_PATHS, Config.read("../settings/c.toml"))
        assert engine.search("who owes us money").ids == ("billing/list",)


TOOLS_OF_PATHS = [Tool("list", "billing"), Tool("send", "mail")]
PATHS_TOML = """
encoder = "models/mine"
abstention = "decision.json"

[reranker]
name = "./judge"
threads = 1

[tiers.rerank]
reranker = "models/mine"

[index]
example_queries = ["library", "asked.jsonl", "/srv/all.jsonl"]

[trust]
pins = "../pins.json"

[session]
summaries = "s.json"
events = "~/e.jsonl"
"""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": "3"}, "k: a number, not the text '3'"),
        ({"k": True}, "k: a number, not True"),
        ({"session": {"pool_tokens": "9"}}, "session.pool_tokens: a number, not the text '9'"),
        ({"session": {"abstain": "no"}}, "session.abstain: true or false, not 'no'"),
        ({"session": {"must_offer": 0}}, "session.must_offer: true or false, not 0"),
        ({"tiers": {"mine": {"retrievers": ["lexical"], "depth": "9"}}}, "depth: a number, not"),
        ({"gate": [Rule(milestone("m"))]}, "gate: a Gate or its table, not list; write Gate([rule"),
        ({"gate": Rule(milestone("m"))}, "gate: a Gate or its table, not Rule; write Gate([rule])"),
    ],
)
def test_no_value_is_silently_made_into_another(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Config(**settings)
    assert message in str(raised.value)
