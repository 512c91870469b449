from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine
from shortlist.errors import RequestError
from shortlist.gating import Rule, State, after


def test_an_active_tool_with_fitting_arguments_passes(engine: Engine) -> None:
    session = engine.session(k=3)
    tool_id = session.turn("list mail messages").ids[0]
    verdict = session.check(tool_id, {"id": "7", "count": 2})
    assert verdict.passed
    assert verdict.to_dict() == {"status": "passed", "tool": tool_id}
    assert verdict.arguments == {"id": "7", "count": 2}
    assert session.state.called == ()
    session.result(tool_id, "None.")
    assert session.state.called == (tool_id,)


def test_an_admitted_tool_that_was_not_offered_is_promoted_with_its_schema(engine: Engine) -> None:
    session = engine.session(k=2)
    before = session.turn("list mail messages").active
    verdict = session.check("share_song", {})
    told = verdict.to_dict()
    assert told["error"] == "tool_not_available"
    assert told["status"] == "promoted"
    assert told["tool"] == "music/share_song"
    assert told["input_schema"]["required"] == ["id"]
    assert session.active == (*before, "music/share_song")
    assert session.state.called == ()
    assert session.check("music/share_song", {"id": "7"}).passed


def test_wrong_arguments_are_told_so_that_they_can_be_mended(engine: Engine) -> None:
    session = engine.session(k=1)
    tool_id = session.turn("list mail messages").ids[0]
    told = session.check(tool_id, {"count": 0}).to_dict()
    assert told["error"] == "invalid_arguments"
    assert {problem["path"] for problem in told["problems"]} == {"/id", "/count"}
    assert "Correct them" in told["message"]
    assert session.state.called == ()


def test_a_tool_held_back_says_why_and_is_not_promoted(gated: Engine) -> None:
    session = gated.session()
    session.turn("delete a mail message")
    told = session.check("mail/delete_message", {"id": "7"}).to_dict()
    assert told["error"] == "tool_not_available"
    assert told["status"] == "denied"
    assert told["kind"] == "scope"
    assert "input_schema" not in told
    assert "mail/delete_message" not in session.active
    session.state = session.state.granted("delete")
    assert session.check("mail/delete_message", {"id": "7"}).status == "promoted"


def test_what_unlocks_a_tool_is_named_and_unlocks_it(fresh_engine: Callable[..., Engine]) -> None:
    engine = fresh_engine(Rule(after("mail/search_*"), tools=["mail/read_message"]))
    session = engine.session(k=20)
    session.turn("search mail messages")
    verdict = session.check("mail/read_message", {"id": "1"})
    assert verdict.refusal is not None
    assert "mail/search_message" in verdict.refusal.unlocked_by
    assert "mail/search_message" in verdict.message
    assert session.check("mail/search_message", {"id": "1"}).passed
    assert session.check("mail/read_message", {"id": "1"}).status == "denied"
    session.result("mail/search_message", "One message.")
    assert session.check("mail/read_message", {"id": "1"}).passed


def test_an_unknown_name_is_answered_with_the_nearest_admitted(gated: Engine) -> None:
    told = gated.session().check("mail/delete_mesage").to_dict()
    assert told["status"] == "unknown"
    assert "mail/delete_message" not in told["nearest"]
    told = gated.session(state=State(scopes=frozenset({"delete"}))).check("mail/delete_mesage")
    assert "mail/delete_message" in told.nearest


@pytest.mark.parametrize("name", ["", "x" * 10_000, "a\nb", "../../etc/passwd"])
def test_any_name_has_a_verdict_that_is_json(engine: Engine, name: str) -> None:
    verdict = engine.session().check(name, {"a": [1]})
    assert verdict.status == "unknown"
    assert json.loads(json.dumps(verdict.to_dict()))["error"] == "tool_not_available"


def test_a_check_keeps_to_the_tools_allowed(engine: Engine) -> None:
    session = engine.session(allowed=["music/share_song"])
    verdict = session.check("mail/list_message", {"id": "1"})
    assert verdict.status == "denied"
    assert session.active == ()


def test_a_state_must_be_one(engine: Engine) -> None:
    with pytest.raises(RequestError, match="state"):
        engine.session().state = {}  # type: ignore[assignment]
