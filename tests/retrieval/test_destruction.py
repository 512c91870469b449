"""A tool that destroys is not first where nobody asked for it."""

from __future__ import annotations

import numpy as np
import pytest

from shortlist import Tool
from shortlist.retrieval import Ranking
from shortlist.retrieval.search.destruction import harmless_first

NAMES = ("delete-event", "cancelEvent", "create_event", "list_events")
TOOLS = [Tool(name, "calendar") for name in NAMES]


@pytest.mark.parametrize(
    "query",
    [
        "block two hours on Thursday",
        "Erinnere mich morgen",
        "查看当前状态",
        "a Stripe event",
        "which events were cancelled?",
        "events",
    ],
)
def test_the_best_tool_that_destroys_nothing_takes_the_place(query: str) -> None:
    ranking = Ranking(np.arange(4), np.array([1.0, 0.98, 0.95, 0.94], np.float32))
    changed = harmless_first(ranking, query, TOOLS)
    assert changed.rows.tolist() == [2, 0, 1, 3]
    np.testing.assert_allclose(changed.scores, [1.0, 1.0, 0.98, 0.94])


@pytest.mark.parametrize(
    "query",
    [
        "it was cancelled",
        "Deleting all",
        "get rid of it",
        "Lösche den Termin",
        "удали это",
        "删除它",
    ],
)
def test_the_order_stays_where_the_query_may_ask_for_destruction(query: str) -> None:
    ranking = Ranking(np.arange(4), np.array([1.0, 0.98, 0.95, 0.94], np.float32))
    assert harmless_first(ranking, query, TOOLS) is ranking


def test_the_order_stays_where_no_other_tool_is_nearly_as_good() -> None:
    for rows, scores in (([0, 2], [1.0, 0.8]), ([2, 0], [1.0, 0.99]), ([0, 2], [-0.1, -0.2])):
        ranking = Ranking(np.array(rows), np.array(scores, np.float32))
        assert harmless_first(ranking, "an event", TOOLS) is ranking
