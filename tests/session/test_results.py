"""What a call came to: only success counts, and what changed is offered again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shortlist import Engine, Tool
from shortlist.demo import load_catalog
from shortlist.errors import RequestError
from shortlist.gating import Provides, Rule, State, after, milestone
from shortlist.session import Recorder
from shortlist.session.conversation import as_text


def test_a_result_needs_a_call_that_passed(engine: Engine) -> None:
    session = engine.session(k=3)
    session.turn("list mail messages")
    for tool_id in ("mail/list_message", "none", 3):
        with pytest.raises(RequestError, match="waits for a result"):
            session.result(tool_id, "x")  # type: ignore[arg-type]
    assert session.check("mail/list_message", {"id": "1"}).passed
    session.result("mail/list_message", "x")
    with pytest.raises(RequestError, match="waits for a result"):
        session.result("mail/list_message", "x")


@pytest.mark.parametrize("ok", ["false", "", 0, 1])
def test_whether_a_call_succeeded_is_a_bool(engine: Engine, ok: Any) -> None:
    session = engine.session(k=3)
    session.turn("list mail messages")
    assert session.check("mail/list_message", {"id": "1"}).passed
    for report in (session.record_call, lambda tool_id, ok: session.result(tool_id, "x", ok=ok)):
        with pytest.raises(RequestError, match=r"ok: .* is not True, False or None"):
            report("mail/list_message", ok=ok)
    assert session.state.called == ()
    session.result("mail/list_message", "x", ok=False)


def test_a_call_that_failed_unlocks_nothing(fresh_engine: Callable[..., Engine]) -> None:
    confirm = Provides(milestones=("confirmed",))
    engine = fresh_engine(
        Rule(milestone("confirmed"), tools="mail/delete_*"),
        Rule(after("files/read_folder"), tools="files/delete_folder"),
        Rule(tools="mail/read_draft", provides=confirm),
    )
    session = engine.session(must_offer=False)
    session.turn("delete a mail message")
    for tool_id in ("mail/read_draft", "files/read_folder"):
        assert session.check(tool_id, {"id": "1"}).passed
        # Passing the check is not having called.
        assert session.state == State()
        session.result(tool_id, "The user says no.", ok=False)
    assert session.state == State()
    assert session.check("mail/delete_message", {"id": "1"}).status == "denied"
    assert session.check("files/delete_folder", {"id": "1"}).status == "denied"
    assert session.check("mail/read_draft", {"id": "1"}).passed
    session.result("mail/read_draft", "Yes.")
    assert session.check("mail/delete_message", {"id": "1"}).passed


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("Two reminders", "Two reminders"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a b"),
        ({"count": 3}, '{"count": 3}'),
        (None, "null"),
        ([object()], "object"),
    ],
)
def test_what_a_tool_answered_may_be_any_json(content: Any, read: str) -> None:
    assert read in as_text(content)


def test_an_entry_of_allowed_that_matches_nothing_is_reported(engine: Engine) -> None:
    session = engine.session(allowed=["mail/*", "gone/tool", "Files/*"])
    turn = session.turn("list the mail messages")
    assert session.view().unmatched == ("gone/tool", "Files/*")
    assert {hit.tool.server for hit in turn.results.ranked} == {"mail"}
    session.allowed = None
    assert session.view().unmatched == ()
    with pytest.raises(RequestError, match="allowed"):
        session.allowed = "mail/*"  # type: ignore[assignment]


def test_what_was_offered_with_another_definition_is_offered_again_before_it_passes(
    fresh_engine: Callable[..., Engine], tools: list[Tool]
) -> None:
    engine = fresh_engine()
    session = engine.session(k=3)
    first = session.turn("list mail messages").ids[0]
    engine.replace(
        Tool(one.name, one.server, "It does something else now", one.input_schema)
        if one.id == first
        else one
        for one in tools
    )
    verdict = session.check(first, {"id": "1"})
    assert verdict.status == "promoted"
    assert verdict.to_dict()["description"] == "It does something else now"
    assert session.check(first, {"id": "1"}).passed


def test_a_call_is_recorded_without_a_turn(fresh_engine: Callable[..., Engine]) -> None:
    engine = fresh_engine(Rule(after("files/read_folder"), tools="files/delete_folder"))
    events: list[Any] = []
    session = engine.session(must_offer=False, events=Recorder(events.append))
    assert session.check("files/read_folder", {"id": "1"}).passed
    session.record_call("files/read_folder", ok=False)
    assert session.state == State()
    assert session.check("files/delete_folder", {"id": "1"}).status == "denied"
    assert session.check("files/read_folder", {"id": "1"}).passed
    session.record_call("files/read_folder")
    assert session.state.called == ("files/read_folder",)
    assert session.check("files/delete_folder", {"id": "1"}).passed
    assert [event.kind for event in events] == ["call"] * 4
    assert session.save()["turn"] == 0


def test_a_call_is_recorded_once(engine: Engine) -> None:
    session = engine.session(must_offer=False)
    assert session.check("mail/list_message", {"id": "1"}).passed
    session.record_call("mail/list_message")
    for record in (session.record_call, lambda one: session.result(one, "x")):
        with pytest.raises(RequestError, match="waits for a result"):
            record("mail/list_message")


def test_a_recorded_call_is_context_and_puts_its_server_in_use() -> None:
    engine = Engine.from_tools(load_catalog(), tiers=["lexical"])
    session = engine.session("openai", pool_tokens=1_500)
    session.turn("frobnicate")
    head = session.system
    page = {"url": "https://example.org"}
    if not session.check("web/fetch_page", page).passed:
        assert session.check("web/fetch_page", page).passed
    session.record_call("web/fetch_page")
    turn = session.turn("frobnicate the whatsit")
    assert session.system == head
    assert "\n read_feed(" in turn.append[0]["content"]


def test_recording_another_call_does_not_count_as_seeing_a_new_definition(
    fresh_engine: Callable[..., Engine], tools: list[Tool]
) -> None:
    engine = fresh_engine()
    session = engine.session(must_offer=False)
    assert session.check("mail/list_message", {"id": "1"}).passed
    session.record_call("mail/list_message")
    engine.replace(
        Tool(one.name, one.server, "It does something else now", one.input_schema)
        if one.id == "mail/list_message"
        else one
        for one in tools
    )
    assert session.check("mail/read_draft", {"id": "1"}).passed
    session.record_call("mail/read_draft")
    assert session.check("mail/list_message", {"id": "1"}).status == "promoted"
    assert session.check("mail/list_message", {"id": "1"}).passed
