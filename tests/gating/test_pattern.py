"""Patterns fit what `fnmatch` says, one text at a time or many at once."""

from __future__ import annotations

import unicodedata
from fnmatch import fnmatchcase
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.gating.pattern import LIMIT, Pattern

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
    assert set(pattern.fitting(texts)) == expected
    assert {text for text in texts if pattern.fits(text)} == expected
    assert pattern.fits(glob)


@pytest.mark.parametrize("glob", ["*a" * (LIMIT // 2 - 1) + "b", "*[a-z]?" * 80 + "B"])
def test_no_pattern_takes_long(glob: str) -> None:
    pattern = Pattern(glob)
    start = process_time()
    assert not pattern.fits("a" * 512)
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
