"""Named parts: the ones built in, and those of other packages."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import registry
from shortlist.errors import ConfigError, MissingExtraError

KINDS = tuple(registry.BUILT_IN)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in registry.BUILT_IN[kind]]
)
def test_everything_built_in_loads(kind: str, name: str) -> None:
    assert callable(registry.load(kind, name))


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_lists_what_there_is_and_where_more_comes_from(kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.load(kind, "nope")
    message = str(caught.value)
    assert f"no {kind} backend 'nope'" in message
    assert ", ".join(registry.names(kind)) in message
    assert f"'shortlist.{kind}'" in message


def test_another_package_adds_a_part(packages: Any) -> None:
    packages("dense", "zeta", "shortlist.retrieval.backends.exact:ExactIndex")
    packages("dense", "beta", "shortlist.retrieval.backends.exact:ExactIndex")
    assert registry.names("dense") == ("exact", "hnswlib", "auto", "beta", "zeta")
    assert registry.load("dense", "zeta").__name__ == "ExactIndex"
    assert "zeta" not in registry.names("lexical")


def test_what_is_built_in_cannot_be_replaced(packages: Any) -> None:
    packages("dense", "exact", "json:loads")
    assert registry.names("dense").count("exact") == 1
    assert registry.load("dense", "exact").__name__ == "ExactIndex"


@pytest.mark.parametrize("value", ["no_such_package:Index", "json:no_such_name"])
def test_a_part_that_cannot_be_loaded_says_which_and_why(packages: Any, value: str) -> None:
    packages("dense", "broken", value)
    with pytest.raises(ConfigError, match=rf"'broken'.*{value}.*no_such"):
        registry.load("dense", "broken")


def test_nothing_of_another_package_is_imported_before_it_is_asked_for(packages: Any) -> None:
    packages("dense", "broken", "no_such_package:Index")
    assert "broken" in registry.names("dense")
    assert registry.load("dense", "auto").__name__ == "AutoIndex"


def test_a_missing_extra_is_a_config_error_with_its_install_line() -> None:
    error = MissingExtraError("the hnswlib dense index", "hnsw")
    assert isinstance(error, ConfigError)
    assert "pip install '.[hnsw]'" in str(error)
