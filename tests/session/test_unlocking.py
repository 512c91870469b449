"""Tools that become permitted, or stop being so, within a conversation or while it is saved."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine
from shortlist.errors import RequestError
from shortlist.gating import Provides, Rule, State, milestone, requires_scope

from .replies import WAYS, way_name

DELETE, CONFIRM, SHARE = "mail/delete_message", "mail/read_draft", "music/share_song"


@pytest.fixture
def engine(fresh_engine: Callable[..., Engine]) -> Engine:
    return fresh_engine(
        Rule(milestone("confirmed"), tools="mail/delete_*"),
        Rule(requires_scope("share"), tools="*/share_*"),
        Rule(tools=CONFIRM, provides=Provides(milestones=("confirmed",))),
    )


@pytest.mark.parametrize("way", WAYS, ids=way_name)
@pytest.mark.parametrize("settings", [{}, {"pass_through": 0.0}, {"pool_tokens": 0}])
def test_what_a_call_unlocks_is_appended_and_the_head_stays(
    engine: Engine, way: tuple[str, str], settings: dict[str, object]
) -> None:
    session = engine.session(way[0], tools=way[1], must_offer=False, **settings)
    messages = [*session.turn("delete a mail message").messages]
    # What may be permitted later is in the list, deferred: no model reads it without a reference.
    read = [tool for tool in session.tools if not tool.get("defer_loading")]
    assert "delete_message" not in json.dumps([session.system, read, messages])
    assert session.level(DELETE) is None
    head = session.system
    assert session.check(CONFIRM, {"id": "1"}).passed
    messages += session.result(CONFIRM, "Yes.").append
    again = engine.resume(json.loads(json.dumps(session.save())), state=State())
    for one in (session, again):
        turn = one.turn("delete a mail message")
        assert DELETE in turn.ids
        assert one.level(DELETE) == "full"
        assert "delete_message" in json.dumps(one.request([*messages, *turn.messages]))
        assert one.check(DELETE, {"id": "1"}).passed
        if way[1] != "list":
            assert (one.system, turn.shown.head_is_new) == (head, False)


def test_what_was_granted_while_a_session_was_saved_is_appended(engine: Engine) -> None:
    session = engine.session("openai", pass_through=0.0)
    session.turn("share a song")
    again = engine.resume(session.save(), state=State(scopes={"share"}))
    turn = again.turn("share a song")
    assert SHARE in turn.ids
    assert "Share a song" in json.dumps(turn.append)
    assert again.system == session.system


def test_a_resumed_session_has_no_scope_that_was_revoked(engine: Engine) -> None:
    session = engine.session(
        "openai", tools="list", state=State(scopes={"share"}), allowed=["music/*"]
    )
    assert SHARE in session.turn("share a song").ids
    saved = session.save()
    again = engine.resume(saved, state=State(facts={"plan": "free"}))
    assert again.state == State(facts={"plan": "free"})
    assert again.check(SHARE, {"id": "1"}).status == "denied"
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
