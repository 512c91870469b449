"""Patterns fit what `fnmatch` says, one text at a time or many at once."""

from __future__ import annotations

import unicodedata
from fnmatch import fnmatchcase
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist.catalog.pattern import MAX_PATTERN_CHARS, Pattern, any_denies, any_grants
from shortlist.errors import ConfigError
from shortlist.tests.test_layers import MODULES, ROOT

TEXTS = st.text(alphabet="ab/_*?[]!-é\n", max_size=8)


@settings(deadline=None, max_examples=300)
@given(TEXTS, st.sets(TEXTS))
@example("[", {"["})
@example("[!a]*", {"ba", "ab"})
def test_it_fits_what_fnmatch_says_and_itself(glob: str, texts: set[str]) -> None:
    try:
        pattern = Pattern(glob)
    except ConfigError:
        assert not glob.strip()
        return
    glob = unicodedata.normalize("NFC", glob.strip())
    expected = {text for text in texts if fnmatchcase(text, glob) or text == glob}
    assert set(pattern.matching_texts(texts)) == expected
    assert {text for text in texts if pattern.matches(text)} == expected
    assert pattern.matches(glob)


@pytest.mark.parametrize("glob", ["*a" * (MAX_PATTERN_CHARS // 2 - 1) + "b", "*[a-z]?" * 80 + "B"])
def test_no_pattern_takes_long(glob: str) -> None:
    pattern = Pattern(glob)
    start = process_time()
    assert not pattern.matches("a" * 512)
    assert process_time() - start < 2


@pytest.mark.parametrize(
    ("glob", "tool_id", "means"),
    [
        ("search_*", "gone/search_it", True),
        ("search_*", "search_it", True),
        ("search_*", "search_server/other", False),
        ("gone/*", "gone/x", True),
        ("gone/*", "other/gone/x", False),
        ("evil/*", "gone/evil/x", False),
    ],
)
def test_an_id_of_a_tool_that_is_gone(glob: str, tool_id: str, means: bool) -> None:
    assert Pattern(glob).matches_id(tool_id) is means


@pytest.mark.parametrize(
    ("glob", "text", "grants", "denies"),
    [
        ("github/*", "github/get", True, True),
        ("GitHub/*", "github/get", False, True),
        ("github/delete_*", "github/Delete_repo", False, True),
        ("ｔasks", "tasks", False, True),
        ("[!a]*", "Ab", True, True),
        ("mail", "github", False, False),
        ("cafe\u0301", "caf\u00e9", True, True),
    ],
)
def test_what_denies_ignores_letter_case_and_what_grants_does_not(
    glob: str, text: str, grants: bool, denies: bool
) -> None:
    assert any_grants(text, ["other", glob]) is grants
    assert any_denies(text, ["other", glob]) is denies


def test_the_package_has_one_kind_of_glob() -> None:
    """Everything that matches ids, names or servers goes through `Pattern`."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES.values()
        if "fnmatch" in path.read_text(encoding="utf-8")
    ]
    assert found == ["catalog/pattern.py"]
