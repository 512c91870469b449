from __future__ import annotations

import pytest

from shortlist.session.intents import asks_nothing


@pytest.mark.parametrize(
    ("before", "request_"),
    [
        ("18 degrees.", "lovely, thanks!"),
        ("Shall I delete it?", "never mind, leave it"),
        ("Done.", "perfect"),
        ("97,400.", "wow, ok"),
        ("I can file that now if you like.", "no, my sister changed her mind, forget it"),
        ("Sol, 31 Grad.", "Danke schön"),
        ("完成了。", "谢谢"),
        ("Ready when you are.", "wait, no, don't do anything yet"),
        ("Want me to send it?", "no thanks"),
    ],
)
def test_a_turn_that_closes_asks_for_nothing(before: str, request_: str) -> None:
    assert asks_nothing(request_, before)


@pytest.mark.parametrize(
    ("before", "request_"),
    [
        ("Shall I send it?", "yes please"),
        ("Want me to book it?", "perfect"),
        ("It costs 3.", "great, book it"),
        ("Done.", "thanks, now send it to her"),
        ("Here it is.", "never mind that, show me June"),
        ("Shall I?", "no, the other one"),
        ("Done.", "and for March?"),
        ("Two: a and b.", "3 please"),
        ("Here.", "now the year before"),
    ],
)
def test_a_turn_that_asks_is_none(before: str, request_: str) -> None:
    assert not asks_nothing(request_, before)
