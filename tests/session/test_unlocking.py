"""Tools that become permitted, or stop being so, within a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine
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
    assert "delete_message" not in json.dumps([first.system, first.tools, first.append])
    assert session.level(DELETE) is None
    assert session.check(CONFIRM, {"id": "1"}).passed
    session.result(CONFIRM, "Yes.")
    turn = session.turn("delete a mail message")
    assert DELETE in turn.ids
    assert session.level(DELETE) == "full"
    assert "delete_message" in json.dumps([turn.tools, session.shown.rendered.messages])
    assert turn.shown.rendered.prefix == first.shown.rendered.prefix
    again = engine.resume(json.loads(json.dumps(session.save())))
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
    again = engine.resume(session.save())
    assert (again.system, again.tools) == (session.system, session.tools)
