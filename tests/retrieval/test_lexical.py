"""What is particular to tantivy: terms against operators, matched terms, very long requests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from shortlist.retrieval.backends.tantivy import MAX_TERMS, TantivyIndex

TEXTS = [
    "create an issue",
    "list pull requests",
    "delete a file",
    "and or not",
    "getUserById reads the account of a user",
    "name of the title",
]


@pytest.fixture(scope="module")
def index() -> TantivyIndex:
    return TantivyIndex.build(
        [{"all": text, "name": text.split()[0]} for text in TEXTS], {"all": 1.0, "name": 1.0}
    )


@pytest.mark.parametrize(
    "query",
    [
        "+issue",
        "issue -create",
        "issue AND nowhere",
        "NOT issue",
        "(issue",
        "issue)",
        '"issue',
        '"issue create"~2',
        "issue^100",
        "issue~1",
        "all:issue",
        "name:issue",
        "nosuchfield:issue",
        "issue*",
        "[issue TO zebra]",
        "{issue TO *}",
        "/issue/",
        "\\issue",
        "issue IN [a b]",
        "IN [issue]",
        "issue && create || file !",
        "<issue>",
        "issue:>5",
    ],
)
def test_operators_are_text(index: TantivyIndex, query: str) -> None:
    assert 0 in index.search(query, 6).rows


def test_a_minus_excludes_nothing_and_a_plus_demands_nothing(index: TantivyIndex) -> None:
    assert index.search("issue -create +nowhere", 6).rows[0] == 0
    assert len(index.search("*", 6)) == len(index.search('(()) "" ^~ :', 6)) == 0


def test_wildcards_and_fuzziness_do_not_widen(index: TantivyIndex) -> None:
    assert len(index.search("iss*", 6)) == 0
    assert len(index.search("isue~", 6)) == 0


def test_terms_beyond_the_bound_are_not_read(index: TantivyIndex) -> None:
    noise = " ".join(f"noise{number}x" for number in range(MAX_TERMS))
    assert len(index.search(f"{noise} issue", 6)) == 0
    assert index.search(f"issue {noise}", 6).rows.tolist() == [0]


def test_a_term_longer_than_any_word_is_ignored(index: TantivyIndex) -> None:
    assert index.search("x" * 70_000 + " issue", 6).rows.tolist() == [0]


def test_building_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    index = TantivyIndex.build([{"all": "issue"}] * 20, {"all": 1.0})
    assert len(index.search("issue", 30)) == 20
    assert list(tmp_path.iterdir()) == []


def test_few_admitted_rows_of_many_have_the_scores_of_all() -> None:
    texts = [f"issue number {row}" if row % 3 else "issue" for row in range(2_000)]
    index = TantivyIndex.build([{"all": text} for text in texts], {"all": 1.0})
    full = index.search("issue number", 2_000)
    for admitted in (1, 19, 20, 21, 400):
        mask = np.zeros(2_000, np.bool_)
        mask[np.random.default_rng(admitted).choice(2_000, admitted, replace=False)] = True
        found = index.search("issue number", 2_000, mask)
        assert found.rows.tolist() == full.rows[mask[full.rows]].tolist()
        np.testing.assert_allclose(found.scores, full.scores[mask[full.rows]], rtol=1e-5)


def test_a_misspelt_term_that_no_document_has_finds_the_term_it_is_like() -> None:
    documents = [{"all": "search files"}, {"all": "collaborators of a repository"}, {"all": "anna"}]
    index = TantivyIndex.build(documents, {"all": 1.0})
    for text, rows in (
        ("collabroators", [1]),
        ("colaborators", [1]),
        ("repositoory", [1]),
        ("repasitory", [1]),
        ("anne", []),
        ("sarchx", []),
        ("repository", [1]),
    ):
        assert index.search(text, 5).rows.tolist() == rows, text
    assert index.search("serch vikunja files", 5).searched_terms == ("file", "search")
