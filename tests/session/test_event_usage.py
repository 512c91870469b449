"""The queries and tools that recorded events show."""

from __future__ import annotations

from typing import Any

from shortlist.errors import EventError
from shortlist.retrieval.usage import UsageEvent
from shortlist.session import usage_of_events


def message(text: str | None, session: str = "a") -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "turn", "turn_id": f"{session}/1", "session": session}
    content = {} if text is None else {"content": {"queries": [text, f"{text} earlier"]}}
    return {**row, "called": None, "ok": None, **content}


def result(tool_id: str, *, ok: bool = True, session: str = "a") -> dict[str, Any]:
    return {**message(None, session), "called": tool_id, "ok": ok}


def search(text: str, *found: str) -> dict[str, Any]:
    hits = [{"id": tool_id, "score": 1.0} for tool_id in found]
    row = {"kind": "search", "turn_id": "g/1", "session": "g", "found": hits}
    return {**row, "content": {"query": text}}


def call(tool_id: str, outcome: str = "ok") -> dict[str, Any]:
    row = {"kind": "call", "turn_id": "g/1", "session": "g", "tool": tool_id}
    return {**row, "status": "passed", "outcome": outcome, "ok": outcome == "ok"}


def test_calls_belong_to_the_message_before_them_in_their_session() -> None:
    usage = usage_of_events(
        [
            message("list them"),
            message("send it", "b"),
            result("billing/list"),
            result("billing/list"),
            result("billing/pay", ok=False),
            result("mail/send", session="b"),
            {"kind": "call", "turn_id": "a/1", "session": "a", "tool": "x", "status": "passed"},
            message("and thanks"),
            message(None),
            result("billing/pay"),
        ]
    )
    assert usage.events == [
        UsageEvent("list them", ("billing/list",)),
        UsageEvent("send it", ("mail/send",)),
    ]
    assert (usage.without_text, usage.without_call, usage.problems) == (1, 1, [])


def test_calls_through_the_gateway_belong_to_the_search_that_found_them() -> None:
    usage = usage_of_events(
        [
            search("who owes us", "billing/list", "billing/pay"),
            search("tell them", "mail/send"),
            call("billing/list"),
            call("mail/send", "tool_error"),
            call("mail/send"),
            call("other/known"),
        ]
    )
    assert usage.events == [
        UsageEvent("who owes us", ("billing/list",)),
        UsageEvent("tell them", ("mail/send", "other/known")),
    ]


def test_lines_that_are_no_events_are_told_and_left_out() -> None:
    broken = [EventError("line 1"), {"kind": "turn", "turn_id": "a/1", "session": "a"}]
    usage = usage_of_events([*broken, call("a/b"), message("list"), result("a/b")])
    assert usage.events == [UsageEvent("list", ("a/b",))]
    assert [str(problem)[:6] for problem in usage.problems] == ["line 1", "a/1: n"]
