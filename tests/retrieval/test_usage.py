"""Events as they are read, and how they are held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Tool
from shortlist.errors import RequestError
from shortlist.retrieval.learning import FOLD_COUNT, folds
from shortlist.retrieval.usage import UsageEvent, checked_events, family_numbers


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(0, 11), min_size=1, max_size=3)),
        max_size=80,
    )
)
def test_folds_hold_out_what_they_say(drawn: list[tuple[int, list[int]]]) -> None:
    texts = [f"request {text}" for text, _ in drawn]
    relevant = [np.unique(rows) for _, rows in drawn]
    family = np.arange(12) // 2
    unseen: list[int] = []
    for fold in folds(texts, relevant, family):
        train, seen = set(fold.train.tolist()), set(fold.seen.tolist())
        assert not (train & seen) | ((train | seen) & set(fold.unseen.tolist()))
        assert not {texts[event] for event in train} & {texts[event] for event in seen}
        taught = {row for event in train for row in relevant[event].tolist()}
        assert all(set(relevant[event].tolist()) <= taught for event in seen)
        twins = {family[row] for row in taught}
        assert not any(
            family[row] in twins for event in fold.unseen for row in relevant[event].tolist()
        )
        unseen += fold.unseen.tolist()
    single = [event for event, rows in enumerate(relevant) if len({family[r] for r in rows}) == 1]
    assert len(unseen) == len(set(unseen))
    assert set(single) <= set(unseen)


def test_there_are_as_many_folds_as_parts_and_twins_share_a_family() -> None:
    assert len(list(folds(["a"], [np.array([0])], np.array([0])))) == FOLD_COUNT
    one, two, three = family_numbers(
        [Tool("a_b", "s", "Do it!"), Tool("a-b", "r", "do IT"), Tool("c", "s", "Do it!")]
    )
    assert one == two != three


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "events: is empty; give a UsageEvent for each recorded query"),
        ("events.jsonl", "events: a list of UsageEvent, not str"),
        (None, "events: a list of UsageEvent, not NoneType"),
        ([{"query": "x"}], r"events\[0\]: a UsageEvent\(query, tool_ids\), not dict"),
        ([UsageEvent("x", "mail/send")], r"events\[0\]: a UsageEvent needs a text and a list"),
        ([UsageEvent(" ", ("mail/send",))], r"events\[0\]: the query is empty"),
    ],
)
def test_what_is_no_list_of_events_says_so(events: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        checked_events(events)
