from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ModelError
from shortlist.models import TokenCounter

COUNTER = TokenCounter()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),  # the example of tiktoken's cookbook
        ("お誕生日おめでとう", 9),  # another one of it
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
    ],
)
def test_known_counts(text: str, tokens: int) -> None:
    assert COUNTER.count(text) == tokens


def test_special_tokens_count_as_the_text_they_are() -> None:
    assert COUNTER.count("<|endoftext|>") > 1


def test_many_are_counted_in_order() -> None:
    assert COUNTER.count_many(["hello world", "", "hello"]) == [2, 0, 1]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(), max_size=400))
def test_any_text_is_counted(text: str) -> None:
    count = COUNTER.count(text)
    assert (count > 0) == bool(text)
    assert count <= len(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text())
def test_a_text_has_at_most_the_tokens_of_its_lines(a: str, b: str) -> None:
    assert COUNTER.count(a + "\n" + b) <= COUNTER.count(a) + 1 + COUNTER.count(b) + 1


@pytest.mark.parametrize("unit", ["a", "!", " ", "漢", "\n", "=-", "\ud800", "ab "])
def test_long_runs_take_linear_time(unit: str) -> None:
    COUNTER.count("warm")
    start = time.process_time()
    assert COUNTER.count(unit * 300_000) > 0
    assert time.process_time() - start < 5.0


def test_text_without_long_runs_is_counted_exactly() -> None:
    import tiktoken

    exact = COUNTER._encoding
    assert isinstance(exact, tiktoken.Encoding)
    text = '{"type": "object", "properties": {"path": {"type": "string"}}}\n' * 300
    assert COUNTER.count(text) == len(exact.encode_ordinary(text))


def test_a_run_cut_in_parts_is_off_by_at_most_one_token_a_part() -> None:
    text = "lorem" * 2_000
    exact = len(COUNTER._encoding.encode_ordinary(text))
    assert exact <= COUNTER.count(text) <= exact + len(text) // 1_000


def test_unknown_encodings_are_listed() -> None:
    with pytest.raises(ModelError, match=r"no token encoding 'cl200k'.*o200k_base"):
        TokenCounter("cl200k").count("x")


def test_an_encoding_that_cannot_be_downloaded_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tiktoken

    def unreachable(_: str) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tiktoken, "get_encoding", unreachable)
    with pytest.raises(ModelError, match="'cl100k_base', which is bundled"):
        TokenCounter("o200k_base").count("x")


def test_other_encodings_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken

    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: COUNTER._encoding)
    assert TokenCounter("o200k_base").count("hello world") == 2
