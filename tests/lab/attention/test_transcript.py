from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.lab.attention.arm import ShownTools
from shortlist.lab.attention.replay import TASK_TOKENS, utilisation
from shortlist.lab.attention.tasks import TaskTurn
from shortlist.lab.attention.transcript import Prices, TextTokens, Transcript
from shortlist.models import TokenCounter


class Letters:
    """Every letter is a token."""

    def count(self, text: str) -> int:
        return len(text)


def transcript() -> Transcript:
    return Transcript(TextTokens(Letters()), Prices())


def test_what_stands_is_written_once_and_read_afterwards():
    turns = transcript()
    first = turns.turn(ShownTools(("h" * 100,)), TaskTurn("ask", ()))
    second = turns.turn(ShownTools(("h" * 100,)), TaskTurn("more", ()))
    assert first == (100, 125.0, 100.0, 0, 3)
    assert second.cached == pytest.approx(10)
    assert second.changed_bytes == 0


def test_what_is_appended_changes_nothing_before_it():
    turns = transcript()
    turns.turn(ShownTools(("h",), ("a" * 10,)), TaskTurn("ask", (), "told"))
    paid = turns.turn(ShownTools(("h",), ("a" * 10, "b" * 20)), TaskTurn("more", ()))
    assert paid.changed_bytes == 0
    assert paid.cached == pytest.approx(0.1 * 11 + 1.25 * 20)
    assert paid.words == len("asktoldmore")


def test_a_suffix_laid_out_anew_moves_the_conversation_behind_it():
    turns = transcript()
    turns.turn(ShownTools(("h",), ("a" * 10,)), TaskTurn("ask", (), "told"))
    paid = turns.turn(ShownTools(("h",), ("c" * 10,)), TaskTurn("more", ()))
    assert paid.changed_bytes == 10 + len("ask")
    assert paid.cached == pytest.approx(0.1 + 12.5)


def test_a_tail_is_paid_in_full_every_turn_and_never_written():
    turns = transcript()
    for _ in range(2):
        paid = turns.turn(ShownTools(("h",), (), ("t" * 40,)), TaskTurn("ask", ()))
    assert paid.cached == pytest.approx(0.1 + 40)
    assert paid.changed_bytes == 40 + len("ask")


def test_further_calls_read_everything_again():
    paid = transcript().turn(ShownTools(("h" * 100,), extra_calls=2), TaskTurn("ask", ()))
    assert paid.cached == pytest.approx(125 + 2 * 10)
    assert paid.uncached == 300


@given(
    st.lists(
        st.tuples(st.lists(st.text("ab", max_size=5), max_size=3), st.text("xy", max_size=4)),
        max_size=12,
    )
)
def test_a_turn_costs_between_all_read_and_all_written(turns):
    held = transcript()
    for batches, tail in turns:
        paid = held.turn(
            ShownTools(("head",), tuple(batches), (tail,)), TaskTurn("said", (), "told")
        )
        assert 0.1 * paid.tokens - 1e-9 <= paid.cached <= 1.25 * paid.tokens + 1e-9
        assert paid.tokens == 4 + sum(map(len, batches)) + len(tail)


def test_published_shares_follow_from_the_formula_for_all_arms_but_the_paper_s_own():
    for tokens, share in ((47_312, 0.24), (11_865, 0.56), (4_082, 0.78)):
        assert utilisation(tokens, TASK_TOKENS) == pytest.approx(share, abs=0.01)
    assert utilisation(2_368, TASK_TOKENS) == pytest.approx(0.86, abs=0.005)  # published: 0.91


@pytest.fixture(scope="module")
def counter():
    return TokenCounter()


@settings(deadline=None)
@given(text=st.text(alphabet=" \n\t\r{}\":,a1.é中'\x0b\x85\u2028", max_size=40))
def test_lines_are_counted_one_by_one_and_their_sum_is_the_text_s(counter, text):
    assert TextTokens(counter)(text) == counter.count(text)
