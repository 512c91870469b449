"""What every lexical index owes its callers, whichever backend it is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError, StoreError

from .vectors import Mask, assert_ranked, assert_same, masks

ROWS = 900
WORDS = (
    "issue create list delete user file branch message channel query table column page ticket "
    "sprint board comment label search fetch open close merge review deploy"
).split()
BOOSTS = {"all": 1.0, "name": 0.5}


def documents(rows: int, seed: int = 0) -> list[dict[str, str]]:
    choose = random.Random(seed)
    texts = [
        (" ".join(choose.choices(WORDS, k=2)), " ".join(choose.choices(WORDS, k=12)))
        for _ in range(rows)
    ]
    return [{"name": name, "all": f"{name} {text}"} for name, text in texts]


@pytest.fixture(scope="module")
def index(lexical_backend: Any) -> Any:
    return lexical_backend.build(documents(ROWS), BOOSTS)


REQUESTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


@settings(deadline=None, max_examples=60)
@given(request=REQUESTS, depth=st.integers(1, 2 * ROWS))
def test_rankings_are_sorted_and_within_depth(index: Any, request: str, depth: int) -> None:
    found = index.search(request, depth)
    assert_ranked(found, depth)
    assert (found.scores > 0).all()
    assert_same(found, index.search(request, 2 * ROWS).head(depth), 1e-6)


@settings(deadline=None, max_examples=200)
@given(request=REQUESTS, depth=st.integers(1, 80), mask=masks(ROWS))
def test_a_masked_search_is_the_full_ranking_filtered(
    index: Any, request: str, depth: int, mask: Mask
) -> None:
    full = index.search(request, ROWS)
    inside = mask[full.rows]
    found = index.search(request, depth, mask)
    assert_ranked(found, depth, mask)
    assert found.rows.tolist() == full.rows[inside][:depth].tolist()
    np.testing.assert_allclose(found.scores, full.scores[inside][:depth], rtol=1e-5)


def test_every_document_with_a_term_is_found_and_no_other(index: Any) -> None:
    held = {row for row, document in enumerate(documents(ROWS)) if "merge" in document["all"]}
    assert set(index.search("merge", ROWS).rows.tolist()) == held


def test_more_and_rarer_terms_rank_higher(lexical_backend: Any) -> None:
    texts = ["file", "file list", "file list unique", *["file list"] * 6]
    index = lexical_backend.build([{"all": text} for text in texts], {"all": 1.0})
    assert index.search("list unique file", 1).rows.tolist() == [2]
    assert index.search("unique", 9).rows.tolist() == [2]


def test_boosts_weigh_fields(lexical_backend: Any) -> None:
    tools = [{"name": "alpha", "all": "beta"}, {"name": "beta", "all": "alpha"}]
    for heavy, expected in (("name", [0, 1]), ("all", [1, 0])):
        index = lexical_backend.build(tools, {"name": 1.0, "all": 1.0} | {heavy: 5.0})
        assert index.search("alpha", 2).rows.tolist() == expected


def test_a_field_at_zero_is_not_searched(lexical_backend: Any) -> None:
    index = lexical_backend.build([{"name": "alpha", "all": "beta"}], {"name": 0.0, "all": 1.0})
    assert len(index.search("alpha", 1)) == 0
    assert len(index.search("beta", 1)) == 1


def test_boosts_of_nothing_are_refused(lexical_backend: Any) -> None:
    with pytest.raises(ConfigError, match="boost"):
        lexical_backend.build([{"name": "alpha"}], {"name": 0.0})


def test_equal_documents_rank_by_row(lexical_backend: Any) -> None:
    index = lexical_backend.build([{"all": "create issue"}] * 300, {"all": 1.0})
    assert index.search("issue", 40).rows.tolist() == list(range(40))
    mask = np.arange(300) % 7 == 3
    expected = np.flatnonzero(mask).tolist()
    assert index.search("issue", 20, mask).rows.tolist() == expected[:20]
    few = np.isin(np.arange(300), [299, 5])
    assert index.search("issue", 20, few).rows.tolist() == [5, 299]


def test_repeated_terms_and_word_order_change_nothing(index: Any) -> None:
    plain = index.search("merge ticket", 50)
    assert_same(index.search("ticket merge merge ticket", 50), plain, 1e-6)


@pytest.mark.parametrize("request_", ["", " \t\n", "?!", "the of and", "zzzz", "\ud800"])
def test_a_request_without_known_terms_finds_nothing(index: Any, request_: str) -> None:
    assert len(index.search(request_, 5)) == 0
    assert len(index.search(request_, 5, np.ones(ROWS, np.bool_))) == 0


def test_an_empty_index_finds_nothing(lexical_backend: Any, tmp_path: Path) -> None:
    index = lexical_backend.build([], BOOSTS)
    index.save(tmp_path / "lexical")
    for empty in (index, lexical_backend.load(tmp_path / "lexical", BOOSTS)):
        assert len(empty.search("issue", 5)) == 0
        assert len(empty.search("issue", 5, np.zeros(0, np.bool_))) == 0


def test_a_document_without_text_is_never_found(lexical_backend: Any) -> None:
    index = lexical_backend.build([{}, {"all": ""}, {"all": "issue"}], {"all": 1.0})
    assert index.search("issue", 5).rows.tolist() == [2]


def test_a_single_row(lexical_backend: Any) -> None:
    index = lexical_backend.build([{"all": "issue"}], {"all": 1.0})
    assert index.search("issue", 5).rows.tolist() == [0]
    assert index.search("issue", 5, np.array([True])).rows.tolist() == [0]
    assert index.search("issue", 5, np.array([False])).rows.tolist() == []


def test_depth_zero_finds_nothing(index: Any) -> None:
    assert len(index.search("issue", 0)) == 0


def test_what_is_saved_is_what_is_loaded(lexical_backend: Any, index: Any, tmp_path: Path) -> None:
    index.save(tmp_path / "lexical")
    loaded = lexical_backend.load(tmp_path / "lexical", BOOSTS)
    mask = np.arange(ROWS) % 5 == 1
    for request in ("create issue", "merge", "list user file branch"):
        assert_same(loaded.search(request, 30), index.search(request, 30))
        assert_same(loaded.search(request, 30, mask), index.search(request, 30, mask))


def test_a_loaded_index_can_be_saved_again(
    lexical_backend: Any, index: Any, tmp_path: Path
) -> None:
    index.save(tmp_path / "first")
    lexical_backend.load(tmp_path / "first", BOOSTS).save(tmp_path / "second")
    again = lexical_backend.load(tmp_path / "second", BOOSTS)
    assert_same(again.search("merge", 30), index.search("merge", 30))


def test_a_folder_without_an_index_is_a_store_error(lexical_backend: Any, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        lexical_backend.load(tmp_path, BOOSTS)
    with pytest.raises(StoreError, match="absent"):
        lexical_backend.load(tmp_path / "absent", BOOSTS)


def test_the_same_documents_give_the_same_answers(lexical_backend: Any, index: Any) -> None:
    again = lexical_backend.build(documents(ROWS), BOOSTS)
    for request in ("create issue", "merge", "list user file branch"):
        assert_same(again.search(request, 50), index.search(request, 50))


@settings(deadline=None, max_examples=150)
@given(text=st.text(st.characters(), max_size=200))
def test_any_text_can_be_asked(index: Any, text: str) -> None:
    assert_ranked(index.search(text, 10), 10)


@settings(deadline=None, max_examples=10)
@given(text=st.text(st.characters(), min_size=1, max_size=60))
def test_any_text_can_be_indexed(lexical_backend: Any, text: str) -> None:
    index = lexical_backend.build([{"all": text}, {"all": f"{text} issue"}], {"all": 1.0})
    assert 1 in index.search("issue", 2).rows


#: Documents of few words, so that equal scores are the rule.
SHORT = st.lists(st.sampled_from(WORDS[:6]), min_size=0, max_size=3).map(" ".join)


def test_a_loaded_index_is_not_written_to(lexical_backend: Any, index: Any, tmp_path: Path) -> None:
    folder = tmp_path / "lexical"
    index.save(folder)
    held = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}
    loaded = lexical_backend.load(folder, BOOSTS)
    assert len(loaded.search("create an issue", 5)) == 5
    loaded.save(tmp_path / "copy")
    left = {path: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}
    assert left == held
