"""Usage events as they are checked, and twins."""

from __future__ import annotations

from typing import Any

import pytest

from shortlist import Tool
from shortlist.errors import RequestError
from shortlist.retrieval.usage import UsageEvent, checked_events, family_numbers


def test_twins_share_a_family() -> None:
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
