"""Settings of parts: unknown keys, wrong values, parts of other packages, round trips."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shortlist import Config, registry
from shortlist.errors import ConfigError, ModelError
from shortlist.models import load_encoder, load_reranker
from shortlist.retrieval.backends.hnsw import HnswSettings

from .test_config import TABLES

Register = Callable[[str, str, str], None]
#: For each kind, a table of a built-in part that has the setting `no_such`, and where that is.
PLACES: list[tuple[str, str, Callable[[dict[str, Any]], dict[str, Any]]]] = [
    ("lexical", "lexical", lambda table: {"lexical": {"backend": table.pop("part"), **table}}),
    ("dense", "dense", lambda table: {"dense": {"backend": table.pop("part"), **table}}),
    ("fusion", "fusion", lambda table: {"fusion": {"method": table.pop("part"), **table}}),
    (
        "fusion",
        "tiers.hybrid.fusion",
        lambda table: {"tiers": {"hybrid": {"fusion": {"method": table.pop("part"), **table}}}},
    ),
    (
        "strategy",
        "tiers.hybrid",
        lambda table: {"tiers": {"hybrid": {"strategy": table.pop("part"), **table}}},
    ),
    ("encoder", "encoder", lambda table: {"encoder": {"name": table.pop("part"), **table}}),
    ("reranker", "reranker", lambda table: {"reranker": {"name": table.pop("part"), **table}}),
    (
        "reranker",
        "tiers.rerank.reranker",
        lambda table: {"tiers": {"rerank": {"reranker": {"name": table.pop("part"), **table}}}},
    ),
]


def message_of(settings: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        Config(**settings)
    return str(caught.value)


class TestUnknown:
    @pytest.mark.parametrize(
        ("kind", "place", "table", "part"),
        [(*case, part) for case in PLACES for part in registry.BUILT_IN[case[0]]],
    )
    def test_a_key_lists_the_settings_of_the_part(
        self, kind: str, place: str, table: Any, part: str
    ) -> None:
        known = registry.settings_model(kind, part).model_fields
        needed = {"model": "m"} if "model" in known else {}
        message = message_of(table({"part": part, **needed, "no_such": 1}))
        listed = ", ".join(known)
        assert message.startswith(
            f"{place}.no_such: unknown setting of {part}; use one of: {listed}"
        )

    def test_the_key_that_names_the_part_is_listed_too(self) -> None:
        assert message_of({"dense": {"backnd": "hnswlib"}}) == (
            "dense.backnd: unknown setting of exact; use one of: backend"
        )
        assert message_of({"dense": {"backend": "hnswlib", "linsk": 3}}) == (
            "dense.linsk: unknown setting of hnswlib; "
            "use one of: links, build_ef, search_ef, backend"
        )

    @pytest.mark.parametrize("tier", ["hybrid", "mine"])
    def test_a_tier_lists_what_every_tier_has(self, tier: str) -> None:
        assert message_of({"tiers": {tier: {"retrievers": ["dense"], "dept": 1}}}) == (
            f"tiers.{tier}.dept: unknown setting of pipeline; use one of: "
            "strategy, retrievers, fusion, reranker, depth, candidates, fallback, threshold"
        )

    def test_the_settings_of_one_backend_are_unknown_to_another(self) -> None:
        for backend in ("exact", "auto"):
            assert f"unknown setting of {backend}" in message_of(
                {"dense": {"backend": backend, "links": 16}}
            )
        assert "unknown setting of linear" in message_of({"fusion": {"k": 60}})

    def test_all_problems_are_named_at_once(self) -> None:
        message = message_of(
            {
                "k": 0,
                "dense": {"backend": "hnswlib", "links": 0, "x": 1},
                "tiers": {"mine": {"retrievers": [], "y": 1}},
            }
        )
        for place in ("k: ", "dense.links: ", "dense.x: ", "tiers.mine.retrievers: ", "mine.y: "):
            assert place in message

    def test_a_name_lists_the_names(self, packages: Register) -> None:
        packages("dense", "keen", f"{__name__}:Keen")
        assert message_of({"dense": {"backend": "lucene", "x": 1}}).startswith(
            "dense.backend: no dense backend 'lucene'; use one of: exact, hnswlib, auto, keen. "
        )

    def test_of_a_model_that_is_loaded_alone(self) -> None:
        with pytest.raises(ConfigError, match=r"encoder 'bundled': thread: unknown .* threads"):
            load_encoder(thread=1)
        with pytest.raises(ConfigError, match=r"reranker 'onnx:m': thread: unknown .* threads"):
            load_reranker("onnx:m", thread=1)
        with pytest.raises(ModelError, match=r"'no-such'.*name \(bundled, multilingual, static, "):
            load_encoder("no-such")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"dense": {"backend": "hnswlib", "links": 1}},
            "dense.links: for hnswlib, input should be greater than or equal to 2, not 1",
        ),
        (
            {"dense": {"backend": "hnswlib", "search_ef": "many"}},
            "dense.search_ef: for hnswlib, input should be a valid integer, unable to parse string "
            "as an integer, not 'many'",
        ),
        ({"dense": {"backend": 3}}, "dense.backend: input should be a valid string, not 3"),
        (
            {"fusion": {"method": "rrf", "k": -1}},
            "fusion.k: for rrf, input should be greater than or equal to 0, not -1",
        ),
        (
            {"fusion": {"method": "rrf", "k": float("nan")}},
            "fusion.k: for rrf, input should be a finite number, not nan",
        ),
        (
            {"fusion": {"weights": {"dense": -1}}},
            "fusion.weights.dense: for linear, input should be greater than or equal to 0, not -1",
        ),
        (
            {"fusion": {"method": "rrf", "weights": [1]}},
            "fusion.weights: for rrf, input should be a valid dictionary, not [1]",
        ),
        (
            {"lexical": {"boosts": {"name": "heavy"}}},
            "lexical.boosts.name: for tantivy, input should be a valid number, unable to parse "
            "string as a number, not 'heavy'",
        ),
        (
            {"encoder": {"name": "bundled", "threads": 0}},
            "encoder.threads: for bundled, input should be greater than or equal to 1, not 0",
        ),
        (
            {"encoder": "sentence-transformers"},
            "encoder.model: for sentence-transformers, this setting is required",
        ),
        ({"encoder": {"threads": 1}}, "encoder.name: this setting is required"),
        (
            {"encoder": 5},
            "encoder: a name, a table of `name` and settings, or an object (Encoder.of "
            "makes one from a function), not int",
        ),
        (
            {"reranker": ["x"]},
            "reranker: a name, a table of `name` and settings, or an object (Reranker.of "
            "makes one from a function), not list",
        ),
    ],
)
def test_a_wrong_value_names_the_key_and_what_would_be_right(
    settings: dict[str, Any], message: str
) -> None:
    assert message_of(settings) == message


class TestSpecs:
    @pytest.mark.parametrize(
        ("spec", "part", "model"),
        [
            ("bundled", "bundled", None),
            ("shortlist-embed", "onnx", "shortlist-embed"),
            ("./folder", "onnx", "./folder"),
            ("onnx", "onnx", "onnx"),
            ("onnx:some/folder", "onnx", "some/folder"),
            ("C:\\models\\mine", "onnx", "C:\\models\\mine"),
            ("org/name", "onnx", "org/name"),
            ("sentence-transformers/mini", "onnx", "sentence-transformers/mini"),
            ("sentence-transformers:org/name", "sentence-transformers", "org/name"),
        ],
    )
    def test_a_spec_means_a_part(self, spec: str, part: str, model: str | None) -> None:
        assert registry.resolve("encoder", spec) == (part, {"model": model} if model else {})
        assert Config(encoder=spec).encoder == spec
        assert Config(encoder={"name": spec}).encoder.name == spec

    def test_a_model_can_be_a_setting(self) -> None:
        config = Config(encoder={"name": "onnx", "model": "shortlist-embed"})
        spec, arguments = config.model_arguments(config.encoder)
        assert load_encoder(spec, **arguments).name == "shortlist-embed"

    def test_threads_of_a_table_go_before_the_common_ones(self) -> None:
        assert Config(threads=2).model_arguments("bundled") == ("bundled", {"threads": 2})
        for table, threads in (({}, 2), ({"threads": 1}, 1)):
            config = Config(threads=2, encoder={"name": "bundled", **table})
            assert config.model_arguments(config.encoder) == ("bundled", {"threads": threads})


def toml(table: Mapping[str, Any]) -> str:
    """A table as TOML, every value inline."""

    def written(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key} = {written(each)}" for key, each in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(written, value)) + "]"
        return json.dumps(value)

    return "\n".join(f"{key} = {written(value)}" for key, value in table.items())


@pytest.mark.parametrize("settings", [{}, TABLES])
def test_a_config_goes_through_toml_unchanged(settings: dict[str, Any], tmp_path: Path) -> None:
    config = Config(**settings)
    path = tmp_path / "shortlist.toml"
    path.write_text(toml(config.model_dump(mode="json", exclude_none=True)))
    assert Config.read(path) == config


def test_defaults_that_are_written_out_change_nothing() -> None:
    short, long = ({"backend": "hnswlib", **rest} for rest in ({}, HnswSettings().model_dump()))
    assert Config(dense=short) == Config(dense=long)
    assert Config(dense=short) != Config(dense={**short, "links": 5})
    assert Config(dense=short).dense.links == 16


def test_a_light_settings_model_is_the_one_of_its_class() -> None:
    for kind, parts in registry.BUILT_IN.items():
        for name in parts:
            made = registry.load(kind, name)
            declared = getattr(made, "Settings", None)
            assert declared in (None, registry.settings_model(kind, name)), (kind, name)


def test_a_default_config_loads_no_backend_and_no_model() -> None:
    heavy = ("tantivy", "simsimd", "hnswlib", "onnxruntime", "tokenizers", "torch")
    program = (
        "import sys; from shortlist import Config; Config(); "
        "Config(encoder='sentence-transformers:x', reranker='a/b'); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
