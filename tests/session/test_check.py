from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from shortlist import Engine, Gate, Tool
from shortlist.errors import RequestError
from shortlist.gating import (
    Rule,
    State,
    after,
    all_of,
    annotation,
    milestone,
    requires_scope,
)
from shortlist.gating.verdict import Verdict


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
    assert told["error"] == "invalid_arguments"
    assert list(told).index("problems") < list(told).index("input_schema")
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


def sentence(verdict: Verdict) -> str:
    return verdict.message.removeprefix(f"{verdict.called_name} may not be used now: ")


def test_each_refusal_says_what_would_mend_it() -> None:
    def tools(*names: str) -> list[Tool]:
        return [Tool(name, "mail") for name in names]

    gate = Gate(
        [
            Rule(after("mail/find"), tools="mail/read"),
            Rule(after("mail/list_*"), tools="mail/open"),
            Rule(all_of(after("mail/find"), after("mail/list_a")), tools="mail/move"),
            Rule(requires_scope("send"), tools="mail/send"),
            Rule(milestone("confirmed"), tools="mail/drop"),
            Rule(annotation("readOnlyHint"), tools="mail/wipe"),
        ]
    )
    names = ("find", "list_a", "list_b", "read", "open", "move", "send", "drop", "wipe", "hold")
    engine = Engine.from_tools([*tools(*names), Tool("far", "away")], tiers=["lexical"], gate=gate)
    engine.quarantine({"mail/hold": "under review"})
    view = engine.view(allowed=["mail/*"])
    endings = {
        "mail/read": "needs a call of 'mail/find' first. Call mail/find first.",
        "mail/open": "Call one of these first: mail/list_a, mail/list_b.",
        "mail/move": "Calls of these tools change that: mail/find, mail/list_a.",
        "mail/send": "No call changes that: tell the user what is missing.",
        "mail/drop": "No call that you may make changes that: tell the user what is missing.",
        "mail/wipe": "Use another tool.",
        "mail/hold": "It waits for an operator's approval. Use another tool.",
        "away/far": "it is not among the tools this request may use. Use another tool.",
    }
    for tool_id, ending in endings.items():
        verdict = view.check(tool_id)
        assert verdict.status == "denied"
        assert sentence(verdict).endswith(ending), verdict.message


def test_a_name_of_several_tools_is_not_said_to_be_unknown() -> None:
    engine = Engine.from_tools([Tool("search", "mail"), Tool("search", "wiki")], tiers=["lexical"])
    assert engine.view().check("search").message == (
        "Several tools are named 'search'. Call one by its full name: mail/search, wiki/search."
    )
    session = engine.session("openai", tools="list")
    session.turn("search the mail")
    assert (
        "Call one by its full name: mail__search, wiki__search."
        in session.check("search")
        .with_model_names(lambda tool_id: tool_id.replace("/", "__"))
        .message
    )
    assert "There is no tool 'x/search'. Nearest:" in session.check("x/search").message
    assert session.check("qqqqqq").message.endswith("Call one of the tools that you were shown.")


@pytest.mark.parametrize("provider", ["openai", "anthropic", "openai_responses"])
def test_call_tool_without_a_tool_is_told_what_it_lacks(engine: Engine, provider: str) -> None:
    session = engine.session(provider)
    session.turn("list mail messages")
    for arguments in ({}, None, {"tool": "mail/list_message"}, {"name": 7, "arguments": {}}):
        verdict = session.check("call_tool", arguments)
        assert (verdict.status, verdict.called_name) == ("invalid", "call_tool")
        assert "There is no tool" not in verdict.message
        assert "/name: expected string" in verdict.message or arguments is None
        assert "Correct them and call again" in verdict.message
    assert session.check("call_tool", {"name": "none", "arguments": {}}).called_name == "none"


def test_the_search_of_the_prompt_is_not_said_to_be_missing(engine: Engine) -> None:
    session = engine.session("anthropic", tools="search")
    session.turn("list mail messages")
    assert "search_tools" in [tool["name"] for tool in session.tools]
    verdict = session.check("search_tools", {"query": "mail"})
    assert verdict.status == "denied"
    assert "There is no tool" not in verdict.message
    assert "call one of those you were shown" in verdict.message


def test_a_promoted_tool_that_had_a_line_is_not_said_to_be_new(engine: Engine) -> None:
    session = engine.session(k=1)
    session.turn("list mail messages")
    message = session.check("share_song", {}).message
    assert message.startswith("The arguments do not fit: /id: expected string")
    assert "music/share_song was not called: you had not seen its present" in message


def test_problems_read_as_sentences() -> None:
    schema = {
        "properties": {"to": {"minLength": 3}, "cc": {"type": "array", "maxItems": 1}},
        "additionalProperties": False,
    }
    view = Engine.from_tools([Tool("send", "mail", "", schema)], tiers=["lexical"]).view()
    problems = view.check("send", {"to": "a", "cc": [1, 2], "bcc": 1}).problems
    assert sorted(map(str, problems)) == [
        "/bcc: unknown; did you mean cc?",
        "/cc: expected at most 1 items, got [1, 2]",
        '/to: expected at least 3 characters, got "a"',
    ]
