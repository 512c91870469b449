from __future__ import annotations

import pytest

from shortlist import Engine, demo

FEED = "web/read_feed"


@pytest.fixture(scope="module")
def engine():
    return Engine.from_tools(demo.load_catalog(), tiers=["lexical"])


def test_a_call_of_a_standing_tool_passes_if_it_fits_and_is_told_the_schema_if_not(engine):
    session = engine.session(standing=[FEED])
    wrong = session.check(FEED, {"limit": "many"})
    assert wrong.status == "promoted"
    assert "url" in wrong.to_dict()["input_schema"]["properties"]
    session = engine.session(standing=[FEED])
    assert session.check(FEED, {"url": "https://example.org/feed"}).passed
    assert session.state.called == (FEED,)
    assert session.active == (FEED,)


def test_other_tools_are_promoted_first(engine):
    session = engine.session(standing=[FEED])
    assert session.check("web/fetch_page", {"url": "https://example.org"}).status == "promoted"


def test_what_stands_is_saved_with_the_session(engine):
    saved = engine.session(standing=[FEED]).to_dict()
    again = engine.resume(saved)
    assert again.check(FEED, {"url": "https://example.org/feed"}).passed
    del saved["standing"]
    older = engine.resume(saved)
    assert older.check(FEED, {"url": "https://example.org/feed"}).status == "promoted"


def test_what_stands_may_change_with_the_prompt(engine):
    session = engine.session()
    assert session.standing == frozenset()
    session.standing = [FEED]
    assert session.check(FEED, {"url": "https://example.org/feed"}).passed
    assert session.to_dict()["standing"] == [FEED]
