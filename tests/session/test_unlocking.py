"""Tools that become permitted, or stop being so, within a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine
from shortlist.errors import RequestError
from shortlist.gating import Provides, Rule, State, milestone, requires_scope

FORMATS = ("openai", "anthropic", "anthropic_search", "openai_call_tool", "anthropic_call_tool")
DELETE, CONFIRM = "mail/delete_message", "mail/read_draft"


@pytest.fixture
def engine(fresh_engine: Callable[..., Engine]) -> Engine:
    return fresh_engine(
        Rule(milestone("confirmed"), tools="mail/delete_*"),
        Rule(requires_scope("share"), tools="*/share_*"),
        Rule(tools=CONFIRM, provides=Provides(milestones=("confirmed",))),
    )


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("settings", [{}, {"pass_through": 0.0}, {"pool": "summaries"}])
def test_what_is_unlocked_is_appended_and_the_prefix_stays(
    engine: Engine, style: str, settings: dict[str, object]
) -> None:
    session = engine.session(format=style, must_offer=False, **settings)
    first = session.turn("delete a mail message")
    # What may be permitted later is in the list, deferred: no model reads it without a reference.
    read = [tool for tool in first.tools if not tool.get("defer_loading")]
    assert "delete_message" not in json.dumps([first.system, read, first.append])
    assert session.level(DELETE) is None
    assert session.check(CONFIRM, {"id": "1"}).passed
    session.result(CONFIRM, "Yes.")
    turn = session.turn("delete a mail message")
    assert DELETE in turn.ids
    assert session.level(DELETE) == "full"
    assert "delete_message" in json.dumps([turn.tools, session.shown.rendered.messages])
    assert turn.shown.rendered.prefix == first.shown.rendered.prefix
    again = engine.resume(json.loads(json.dumps(session.save())), state=State())
    assert again.level(DELETE) == "full"
    assert again.system == session.system


def test_what_is_denied_later_leaves_the_prompt_at_the_next_step(engine: Engine) -> None:
    session = engine.session(format="openai", state=State(scopes=frozenset({"share"})))
    first = session.turn("share a song")
    assert "share_song" in json.dumps([first.system, first.tools])
    session.state = State()
    session.refresh()
    assert "share_song" not in json.dumps([session.system, session.tools])
    turn = session.turn("list the folders")
    assert "share_song" not in json.dumps([turn.system, turn.tools, turn.append])


def test_a_changed_definition_is_handed_out_after_a_refresh(fresh_engine, tools) -> None:
    from shortlist import Tool

    engine = fresh_engine()
    session = engine.session(format="anthropic_call_tool", pass_through=0.0)
    offered = session.turn("list mail messages").ids[0]
    engine.replace(
        Tool(one.name, one.server, "Another thing entirely", one.input_schema)
        if one.id == offered
        else one
        for one in tools
    )
    session.refresh()
    assert session.check(offered, {"id": "1"}).status == "promoted"
    assert session.check(offered, {"id": "1"}).passed
    turn = session.turn("list mail messages")
    assert "Another thing entirely" in json.dumps([turn.append, turn.shown.rendered.messages])


def test_a_resumed_session_has_its_prompt_at_once(engine: Engine) -> None:
    session = engine.session(format="openai")
    session.turn("list mail messages")
    again = engine.resume(session.save(), state=State())
    assert (again.system, again.tools) == (session.system, session.tools)


@pytest.mark.parametrize("style", FORMATS)
@pytest.mark.parametrize("settings", [{}, {"pass_through": 0.0}, {"pool": "summaries"}])
def test_a_resumed_prompt_with_an_unlocked_tool_has_the_same_bytes(
    engine: Engine, style: str, settings: dict[str, object]
) -> None:
    session = engine.session(format=style, must_offer=False, **settings)
    session.turn("delete a mail message")
    assert session.check(CONFIRM, {"id": "1"}).passed
    session.result(CONFIRM, "Yes.")
    turn = session.turn("delete a mail message")
    assert DELETE in turn.ids
    again = session
    for _ in range(2):
        saved = json.loads(json.dumps(again.save()))
        again = engine.resume(saved, state=State())
        assert (again.system, again.tools) == (session.system, session.tools)
        assert again.shown.rendered.messages == session.shown.rendered.messages
        assert again.check(DELETE, {"id": "1"}).passed
        next_turn = again.turn("delete a mail message")
        assert (next_turn.shown.changed_bytes, next_turn.rebuilt) == (0, False)


def test_what_was_granted_meanwhile_is_appended_to_a_resumed_prompt(engine: Engine) -> None:
    session = engine.session(format="openai_call_tool", pass_through=0.0)
    session.turn("share a song")
    again = engine.resume(session.save(), state=State(scopes={"share"}))
    assert again.system == session.system
    turn = again.turn("share a song")
    assert "music/share_song" in turn.ids
    assert turn.shown.changed_bytes == 0


def test_a_resumed_session_has_no_scope_that_was_revoked(engine: Engine) -> None:
    session = engine.session(format="openai", state=State(scopes={"share"}), allowed=["music/*"])
    turn = session.turn("share a song")
    assert "music/share_song" in turn.ids
    saved = session.save()
    again = engine.resume(saved, state=State(facts={"plan": "free"}))
    assert again.state == State(facts={"plan": "free"})
    assert again.check("music/share_song", {"id": "1"}).status == "denied"
    assert "share_song" not in json.dumps([again.system, again.tools])
    assert again.allowed == ("music/*",)
    assert engine.resume(saved, state=State(), allowed=["mail/*"]).allowed == ("mail/*",)
    assert engine.resume(saved, state=State(), allowed=None).allowed is None


def test_calls_and_milestones_of_the_session_go_on(engine: Engine) -> None:
    session = engine.session(must_offer=False)
    session.check(CONFIRM, {"id": "1"})
    session.result(CONFIRM, "Yes.")
    again = engine.resume(session.save(), state=State(called=["mail/list_message"]))
    assert again.state.called == (CONFIRM, "mail/list_message")
    assert again.state.milestones == {"confirmed"}
    with pytest.raises(RequestError, match="state: a State, not dict"):
        engine.resume(session.save(), state={"scopes": []})  # type: ignore[arg-type]
