"""Text to terms: identifiers, accents, scripts without spaces, and whatever else is typed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.text import (
    identifiers_as_words,
    lower_words,
    search_terms,
    split_identifier,
    without_accents,
)


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("getUserById", ["get", "user", "by", "id"]),
        ("list_pull_requests", ["list", "pull", "requests"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("oauth2", ["oauth", "2"]),
        ("kebab-case-name", ["kebab", "case", "name"]),
        ("dotted.path.to", ["dotted", "path", "to"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("getURL", ["get", "url"]),
        ("snake_camelMix9z", ["snake", "camel", "mix", "9", "z"]),
        ("SHOUTING_CASE", ["shouting", "case"]),
        ("server/tool", ["server", "tool"]),
        ("_private__dunder__", ["private", "dunder"]),
    ],
)
def test_an_identifier_gives_its_parts(identifier: str, parts: list[str]) -> None:
    found = lower_words(identifier)
    assert [word for word in found if word in parts] == parts
    assert identifiers_as_words(identifier).lower().split() == parts


@pytest.mark.parametrize(("word", "whole"), [("GitHub", "github"), ("oauth2", "oauth2")])
def test_an_identifier_gives_itself_too(word: str, whole: str) -> None:
    assert whole in lower_words(word)


@pytest.mark.parametrize("word", ["github", "GitHub", "GITHUB"])
def test_letter_case_does_not_hide_a_word(word: str) -> None:
    assert "github" in search_terms(word)


@given(st.text(st.characters(codec="ascii")))
def test_words_of_ascii_are_those_of_the_same_text_among_others(text: str) -> None:
    assert [*lower_words(text), "ж"] == lower_words(f"{text} ж")


def test_split_identifier_keeps_letter_case() -> None:
    assert split_identifier("getUserByID2") == ["get", "User", "By", "ID", "2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "cafe"),
        ("cafe\u0301", "café"),
        ("Überprüfung", "uberprufung"),
        ("naïve façade", "naive facade"),
        ("résumé", "resume"),
        ("ñandú", "nandu"),
        ("ｆｕｌｌｗｉｄｔｈ", "fullwidth"),
        ("ﬁle", "file"),
        ("Ελλάδα", "ελλαδα"),
        ("ёлка", "елка"),
        ("STRASSE", "strasse"),
    ],
)
def test_accents_and_forms_fold(one: str, other: str) -> None:
    assert set(search_terms(one)) & set(search_terms(other))


@pytest.mark.parametrize("word", ["कि", "が", "ば", "กำ"])
def test_marks_that_carry_meaning_stay(word: str) -> None:
    assert without_accents(word) == unicodedata.normalize(
        "NFC", unicodedata.normalize("NFKC", word)
    )


@pytest.mark.parametrize(
    ("tool", "request_"),
    [
        ("创建问题并分配给用户", "问题"),
        ("搜索文件内容", "文件"),
        ("ファイルを検索する", "検索"),
        ("カレンダーの予定を作成", "予定"),
        ("ค้นหาไฟล์ในโฟลเดอร์", "ไฟล์"),
        ("파일을 검색합니다", "파일"),
        ("फ़ाइल खोजें और सूची दिखाएं", "सूची"),
        ("البحث عن الملفات", "الملفات"),
        ("Создать новую задачу", "задачу"),
        ("Αναζήτηση αρχείων", "αρχείων"),
        ("חיפוש קבצים", "קבצים"),
        ("ဖိုင်ရှာဖွေပါ", "ရှာဖွေ"),
    ],
)
def test_scripts_share_terms_with_their_requests(tool: str, request_: str) -> None:
    asked = set(search_terms(request_))
    assert asked
    assert asked <= set(search_terms(tool))


@pytest.mark.parametrize(
    ("one", "other"), [("问题", "文件"), ("検索", "予定"), ("задачу", "файл"), ("सूची", "खोजें")]
)
def test_other_words_of_a_script_share_none(one: str, other: str) -> None:
    assert not set(search_terms(one)) & set(search_terms(other))


def test_mixed_scripts_give_both() -> None:
    found = search_terms("用GitHub创建issue")
    assert {"创建", "issu"} <= set(found)
    assert any("github" in term for term in found)


def test_plurals_and_inflections_meet() -> None:
    assert set(search_terms("issues")) == set(search_terms("issue"))
    assert set(search_terms("searching")) == set(search_terms("search"))


def test_contractions_do_not_leave_their_tails() -> None:
    assert search_terms("what's the user's name, don't it's I'm") == search_terms("user name")


@pytest.mark.parametrize("text", ["please could you", "the of and", "what is this"])
def test_function_words_and_courtesies_are_no_terms(text: str) -> None:
    assert search_terms(text) == []


@pytest.mark.parametrize("verb", ["get", "list", "set", "find", "need", "let"])
def test_verbs_that_name_operations_stay(verb: str) -> None:
    assert search_terms(verb) == [verb]


@pytest.mark.parametrize(
    "text", ["", " \n\t", "🚀🔥", "+-*/()[]{}^~:\"'\\", "\x00\x01", "___", "…—"]
)
def test_text_without_words_has_no_terms(text: str) -> None:
    assert search_terms(text) == []


def test_emoji_and_punctuation_part_words() -> None:
    assert search_terms("deploy🚀branch") == search_terms("deploy branch")
    assert search_terms("deploy->branch;(deploy)") == search_terms("deploy branch deploy")


ANY = st.text(st.characters(), max_size=300)


@settings(deadline=None, max_examples=400)
@given(text=ANY)
def test_any_text_has_terms_without_blanks_or_operators(text: str) -> None:
    found = search_terms(text)
    assert all(term and not term.isspace() for term in found)
    assert not set('+-*/()[]{}^~:"\\') & set("".join(found))
    assert lower_words(text) == lower_words(text)
    assert all(word == word.strip() and word for word in lower_words(text))


@settings(deadline=None, max_examples=200)
@given(text=ANY)
def test_composed_and_decomposed_text_are_one(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert search_terms(composed) == search_terms(decomposed)


@settings(deadline=None, max_examples=200)
@given(text=ANY)
def test_spaced_loses_no_word_character(text: str) -> None:
    kept = {character for character in identifiers_as_words(text) if character != " "}
    assert kept <= set(text)
    assert {c for c in text if c.isalnum() and c.isascii()} <= kept


@settings(deadline=None, max_examples=100)
@given(left=st.text("abc字é-_ ", max_size=20), right=st.text("abc字é-_ ", max_size=20))
def test_the_words_of_two_texts_are_those_of_each(left: str, right: str) -> None:
    assert lower_words(f"{left} {right}") == lower_words(left) + lower_words(right)


def test_very_long_text_is_read_in_linear_time() -> None:
    for unit in ("aB", "字", "a1_", "e\u0301", "'s", "\u0e33"):
        assert isinstance(search_terms(unit * 50_000), list)
