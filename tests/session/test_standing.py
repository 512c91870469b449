"""Which calls pass without having been offered."""

from __future__ import annotations

import json

import pytest

from shortlist import Engine, State, demo
from shortlist.lab.attention.example_arguments import example_arguments

FEED = "web/read_feed"
FITTING = {"url": "https://example.org/feed"}


def fitting(engine, tool_id):
    return example_arguments(engine.catalog.get(tool_id).input_schema)


@pytest.fixture(scope="module")
def engine():
    return Engine.from_tools(demo.load_catalog(), tiers=["lexical"])


def test_a_tool_whose_arguments_stand_in_the_pool_passes_if_they_fit(engine):
    session = engine.session(format="openai_call_tool")
    session.turn("delete the old branch")
    assert session.level(FEED) == "arguments"
    wrong = session.check(FEED, {"limit": "many"})
    assert wrong.status == "promoted"
    assert "url" in wrong.to_dict()["input_schema"]["properties"]
    session = engine.session(format="openai_call_tool")
    session.turn("delete the old branch")
    assert session.check(FEED, FITTING).passed
    session.result(FEED, "Nothing new.")
    assert session.state.called == (FEED,)
    assert FEED in session.active


def test_a_tool_that_is_only_named_is_promoted_first(engine):
    session = engine.session(format="openai_call_tool", pool="summaries", pool_tokens=2_000, k=1)
    session.turn("delete the old branch")
    assert session.level(FEED) in ("name", "summary")
    verdict = session.check(FEED, FITTING)
    assert verdict.status == "promoted"
    assert FEED in json.dumps(verdict.append)
    assert session.check(FEED, FITTING).passed


def test_without_a_format_what_was_not_offered_is_promoted_first(engine):
    session = engine.session()
    assert session.check(FEED, FITTING).status == "promoted"
    assert session.check(FEED, FITTING).passed


def test_where_nothing_must_be_offered_every_permitted_call_that_fits_passes(engine):
    session = engine.session(must_offer=False, allowed=["web/*"])
    assert session.check(FEED, FITTING).passed
    assert session.check("web/fetch_page", {}).status == "promoted"
    assert session.check("github/create_issue", {}).status == "denied"


def test_it_goes_on_after_saving(engine):
    session = engine.session(format="openai_call_tool")
    first = session.turn("delete the old branch")
    again = engine.resume(json.loads(json.dumps(session.save())), state=State())
    assert again.check(FEED, FITTING).passed
    turn = again.turn("and now tell me what is new in the feed")
    assert turn.system == first.system


@pytest.mark.parametrize("steps", [1, 2])
def test_a_session_saved_within_a_turn_goes_on_exactly(engine, steps):
    """Also calls of tools whose lines were only in a message of this turn."""
    session = engine.session(format="openai_call_tool", pool_tokens=1_500, in_use_tokens=700)
    turn = session.turn("read the feed of a page on the web")
    lines = turn.callable
    assert turn.transient
    if steps == 2:
        assert session.check(turn.ids[0], fitting(engine, turn.ids[0])).passed
        session.result(turn.ids[0], "something else entirely: branches, commits, pull requests")
    again = engine.resume(json.loads(json.dumps(session.save())), state=State())
    assert again.save() == session.save()
    for one in sorted(tool.id for tool in engine.catalog):
        if one in lines or one in turn.active:
            arguments = fitting(engine, one)
            assert again.check(one, arguments).status == session.check(one, arguments).status
    ends = [
        (end.system, end.tools, end.append, end.transient, end.active, end.callable)
        for end in (one.turn("and now list the branches") for one in (session, again))
    ]
    assert ends[0] == ends[1]


def test_a_line_of_an_earlier_turn_is_no_longer_seen(engine):
    session = engine.session(format="openai_call_tool", pool_tokens=1_500, in_use_tokens=700)
    first = session.turn("read the feed of a page on the web")
    second = session.turn("delete the old branch")
    gone = sorted(first.callable - second.callable - set(second.active))
    assert session.check(gone[0], fitting(engine, gone[0])).status == "promoted"


def test_a_call_of_call_tool_is_read_as_the_call_it_carries(engine):
    session = engine.session(format="openai")
    turn = session.turn("delete the old branch")
    assert turn.tools[0]["function"]["name"] == "call_tool"
    verdict = session.check("call_tool", {"tool": FEED, "arguments": FITTING})
    assert verdict.passed
    assert (verdict.tool.id, verdict.arguments) == (FEED, FITTING)
    assert session.check("call_tool", {"tool": "none", "arguments": {}}).status == "unknown"
    assert session.check("call_tool", {}).status == "invalid"


def test_a_providers_name_is_understood(engine):
    session = engine.session(format="openai")
    turn = session.turn("delete the old branch")
    offered = [tool["function"]["name"] for tool in turn.tools]
    assert [name.replace("__", "/", 1) for name in offered[1:]] == list(turn.ids)
    assert session.check(offered[1], {}).tool.id == turn.ids[0]
    assert session.check("web__read_feed", FITTING).tool.id == FEED
