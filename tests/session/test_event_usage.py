"""The queries and tools that recorded events show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from shortlist import Engine, Tool
from shortlist.errors import EventError
from shortlist.retrieval.usage import UsageEvent
from shortlist.session import Recorder, usage_of_events
from shortlist.session.event import CallEvent, FoundTool, SearchEvent, TurnEvent

NOW = datetime.now(UTC)


def message(text: str | None, session: str = "a") -> TurnEvent:
    content = None if text is None else {"queries": [text, f"{text} earlier"]}
    return TurnEvent(session=session, at=NOW, query="", content=content)


def result(tool_id: str, *, ok: bool = True, session: str = "a") -> TurnEvent:
    return TurnEvent(session=session, at=NOW, query="", called=tool_id, ok=ok)


def search(text: str, *found: str, client: str = "default") -> SearchEvent:
    return SearchEvent(
        session="g",
        at=NOW,
        client=client,
        query="",
        tier="fast",
        outcome="found",
        found=tuple(FoundTool(id=tool_id, score=1.0) for tool_id in found),
        tokens=9,
        ms=1.0,
        content={"query": text},
    )


def call(tool_id: str, outcome: str | None = "ok", **values: Any) -> CallEvent:
    values = {"session": "g", "ok": outcome == "ok", **values}
    return CallEvent(at=NOW, tool=tool_id, status="passed", outcome=outcome, **values)


def test_calls_belong_to_the_message_before_them_in_their_session() -> None:
    usage = usage_of_events(
        [
            message("list them"),
            message("send it", "b"),
            result("billing/list"),
            result("billing/list"),
            result("billing/pay", ok=False),
            result("mail/send", session="b"),
            call("x", None, session="a"),
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
        UsageEvent("who owes us", ("billing/list",), "default"),
        UsageEvent("tell them", ("mail/send", "other/known"), "default"),
    ]


def test_lines_that_are_no_events_are_told_and_left_out() -> None:
    usage = usage_of_events([EventError("line 1"), call("a/b"), message("list"), result("a/b")])
    assert usage.events == [UsageEvent("list", ("a/b",))]
    assert [str(problem) for problem in usage.problems] == ["line 1"]


def test_events_have_the_profile_and_the_definition_at_the_call() -> None:
    usage = usage_of_events(
        [
            search("who owes us", "billing/list", client="work"),
            call("billing/list", fingerprint="f1"),
            call("mail/send"),
            message("send it"),
            call("mail/send", fingerprint="f2", session="a"),
            result("mail/send"),
        ]
    )
    assert usage.events == [
        UsageEvent("who owes us", ("billing/list", "mail/send"), "work", {"billing/list": "f1"}),
        UsageEvent("send it", ("mail/send",), None, {"mail/send": "f2"}),
    ]


def test_a_session_records_the_fingerprint_of_what_was_called() -> None:
    events: list[Any] = []
    engine = Engine.from_tools([Tool("list_invoices", "billing")], tiers=["lexical"])
    session = engine.session(events=Recorder(events.append, content=True))
    session.turn("list the invoices")
    verdict = session.check("billing/list_invoices", {})
    session.check("billing/none", {})
    session.result(verdict, "INV-7")
    [event] = usage_of_events(events).events
    tool = engine.catalog.get("billing/list_invoices")
    assert event.fingerprints == {tool.id: tool.fingerprint}
    checks = [event for event in events if event.kind == "call"]
    assert [check.fingerprint is None for check in checks] == [False, True]
