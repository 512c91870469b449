from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import Engine
from shortlist.catalog import Catalog, Tool
from shortlist.errors import RequestError, UnknownToolError
from shortlist.lab.attention.example_arguments import example_arguments
from shortlist.loaders import Detail
from shortlist.loaders.levels import compact_signature
from shortlist.loaders.pool import PoolLevel, PoolWriter
from shortlist.loaders.prompt import Prompt
from shortlist.loaders.render import FORMATS
from shortlist.loaders.working_set import WorkingSet
from shortlist.session.recorder import Recorder

STABLE = ("text", "anthropic_search", "openai_call_tool", "anthropic_call_tool")
SMALL = WorkingSet(900, 500, 2)
FEED = "web/read_feed"


@pytest.fixture(scope="module")
def engine(demo):
    return Engine.from_tools(demo, tiers=["lexical"])


def text_of(messages) -> str:
    """What messages say, in any provider's shape."""
    contents = [message["content"] for message in messages]
    return "".join(one if isinstance(one, str) else one[0]["text"] for one in contents)


def scored(ids) -> dict[str, float]:
    return {name: 1 / rank for rank, name in enumerate(ids, 1)}


def line_of(tool: Tool) -> str:
    return f" {tool.name}{compact_signature(tool)}\n"


@pytest.mark.parametrize("style", FORMATS)
def test_the_prefix_is_identical_over_many_turns_and_promotions_append(style, demo, counter):
    choose, ids = random.Random(5), [tool.id for tool in demo]
    working = WorkingSet(600, 500, 2)
    prompt = Prompt(
        demo, format=style, operator="Be brief.", schema_budget=1_000, working_set=working
    )
    active: list[str] = []
    prefixes, in_use, shown = set(), set(), None
    for _ in range(200):
        before, rests = shown, prompt._layout.servers_in_use_text
        found = choose.sample(ids, choose.randrange(24))
        active = list(dict.fromkeys((*active, *found)))[-40:]
        turn = prompt.turn(active, scored(found))
        shown = turn.rendered
        prefixes.add(shown.prefix.encode())
        in_use.add(prompt._layout.servers_in_use_text)
        assert turn.promoted_tokens <= 1_000
        assert counter.count(prompt._layout.servers_in_use_text) <= 500
        told = counter.count(prompt._layout.servers_in_use_text) + counter.count(
            text_of(turn.transient)
        )
        assert told == turn.line_tokens <= 600
        if before and not turn.rebuilt:
            assert shown.messages[: len(before.messages)] == before.messages
            if style in STABLE and prompt._layout.servers_in_use_text == rests:
                assert turn.changed_bytes == 0
        if choose.random() < 0.2:
            prompt.called(choose.choice(ids))
    assert len(prefixes) == 1
    assert len(in_use) > 3


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    schemas=st.integers(0, 1_000),
    bounds=st.lists(st.integers(0, 400), min_size=2, max_size=2).map(sorted),
    promoted=st.integers(0, 4),
    style=st.sampled_from(sorted(FORMATS)),
)
def test_whatever_the_catalog_no_budget_is_exceeded(
    tools, counter, data, schemas, bounds, promoted, style
):
    catalog = Catalog(data.draw(st.lists(tools, min_size=1, max_size=8)))
    ids = [tool.id for tool in catalog]
    prompt = Prompt(
        catalog,
        format=style,
        pool=PoolWriter(budget=0),
        schema_budget=schemas,
        pass_through_share=0,
        working_set=WorkingSet(bounds[1], bounds[0], promoted),
    )
    drawn = st.lists(st.sampled_from(ids), max_size=8, unique=True)
    for active, found in data.draw(st.lists(st.tuples(drawn, drawn), max_size=4)):
        turn = prompt.turn(active, scored(found))
        lines = prompt._layout.servers_in_use_text, text_of(turn.transient)
        assert turn.promoted_tokens <= schemas
        assert counter.count(lines[0]) <= bounds[0]
        assert sum(map(counter.count, lines)) == turn.line_tokens <= bounds[1]
        for name in prompt.callable_ids:
            assert f"{compact_signature(catalog.get(name))}\n" in "".join(lines)
        assert set(turn.details) | prompt.callable_ids | set(turn.left_out) >= set(active)
        for name in data.draw(drawn):
            prompt.called(name)


def test_the_best_found_are_promoted_and_the_others_told(demo):
    prompt = Prompt(demo, format="openai_call_tool", working_set=SMALL)
    found = [tool.id for tool in demo if tool.server == "github"][:12]
    turn = prompt.turn(found, scored(reversed(found)))
    assert list(turn.details) == found[-2:]
    assert prompt.callable_ids
    assert not prompt.callable_ids & turn.details.keys()
    told = [name for name in reversed(found[:-2]) if name in prompt.callable_ids]
    assert told == found[-3 : -3 - len(told) : -1]
    text = text_of(turn.transient)
    assert text == "github/ (" + str(len(told)) + "):\n" + "".join(
        line_of(demo.get(name)) for name in sorted(told)
    )
    assert set(turn.left_out) == set(found) - set(told) - turn.details.keys()
    later = prompt.turn(found, scored(found[:1]))
    assert set(later.details) == {*found[-2:], found[0]}
    assert later.transient == ()
    assert prompt.callable_ids == frozenset()


def test_what_is_found_is_told_whether_or_not_it_is_active(demo):
    prompt = Prompt(demo, working_set=SMALL)
    turn = prompt.turn(["web/fetch_page"], scored(["web/fetch_page", "web/search_web", FEED]))
    assert list(turn.details) == ["web/fetch_page"]
    assert prompt.callable_ids == {"web/search_web", FEED}
    assert turn.left_out == ()


def test_without_scores_the_new_ones_are_what_was_found(demo):
    prompt = Prompt(demo, working_set=SMALL)
    ids = [tool.id for tool in demo][:5]
    assert list(prompt.turn(ids).details) == ids[:2]
    assert prompt.callable_ids == set(ids[2:])
    assert list(prompt.turn([*ids, FEED]).details) == [*ids[:2], FEED]
    assert prompt.callable_ids == frozenset()


def test_what_the_model_named_is_promoted_although_it_was_not_found(demo):
    prompt = Prompt(demo, working_set=WorkingSet(900, 500, 1))
    prompt.turn(["web/fetch_page"], scored(["web/fetch_page"]))
    asked = ["web/fetch_page", "jira/link_issues", FEED]
    turn = prompt.turn(asked, scored([FEED]))
    assert turn.details.keys() == set(asked)
    assert turn.details["jira/link_issues"] >= Detail.SIGNATURE


@pytest.mark.parametrize("style", FORMATS)
def test_a_server_in_use_stands_behind_the_prefix_until_others_have_its_room(style, demo):
    prompt = Prompt(demo, format=style, working_set=SMALL)
    before = prompt.turn([])
    prompt.called(FEED)
    assert prompt.callable_ids == frozenset()
    turn = prompt.turn([])
    of_web = [tool for tool in demo if tool.server == "web"]
    assert prompt.callable_ids == {tool.id for tool in of_web}
    assert turn.rendered.prefix == before.rendered.prefix
    text = "".join(turn.rendered.segments)
    assert all(line_of(tool) in text for tool in of_web)
    system = turn.rendered.system
    said = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    assert said.endswith(prompt._layout.servers_in_use_text)
    assert prompt.turn([]).changed_bytes == 0
    of_database = [tool.id for tool in demo if tool.server == "database"]
    prompt.called(of_database[0])
    prompt.turn([])
    assert prompt.callable_ids == set(of_database)
    prompt.called("web/fetch_page")
    prompt.turn([])
    assert prompt.callable_ids == {tool.id for tool in of_web}


def test_each_block_of_system_text_can_be_cached(demo):
    prompt = Prompt(demo, format="anthropic_call_tool", working_set=SMALL)
    prompt.called(FEED)
    system = prompt.turn([]).rendered.system
    assert [block["cache_control"] for block in system] == [{"type": "ephemeral"}] * 2


def test_what_is_withheld_or_gone_has_no_line(demo):
    prompt = Prompt(demo, working_set=SMALL, withheld=[FEED])
    prompt.called("web/fetch_page")
    turn = prompt.turn([], scored([FEED, "no/such", "web/search_web"]))
    assert "web/search_web" in prompt.callable_ids
    assert FEED not in prompt.callable_ids
    assert "read_feed" not in "".join(turn.rendered.segments) + text_of(turn.transient)
    prompt.update(demo.remove(tool.id for tool in demo if tool.server == "web"))
    assert prompt.turn([]).rendered.segments == (prompt._layout.prefix_text,)
    assert prompt.callable_ids == frozenset()
    with pytest.raises(UnknownToolError):
        prompt.called("no/such")


def test_where_the_pool_tells_all_nothing_is_told_twice(demo):
    prompt = Prompt(demo, working_set=WorkingSet())
    assert prompt.callable_ids == {tool.id for tool in demo}
    assert f"\n{line_of(demo.get(FEED))}" in prompt.turn([]).rendered.prefix
    prompt.called(FEED)
    turn = prompt.turn([tool.id for tool in demo])
    assert (turn.transient, turn.line_tokens, len(turn.details)) == ((), 0, 3)
    assert not prompt._layout.servers_in_use_text


def test_where_it_cannot_the_pool_counts(demo):
    turn = Prompt(demo, working_set=SMALL).turn([])
    assert turn.prefix_tokens <= 100
    assert turn.rendered.prefix.startswith("120 tools on 6 servers.\n")
    own = PoolWriter(budget=1_000, top=PoolLevel.ARGUMENTS)
    assert Prompt(demo, pool=own, working_set=SMALL).turn([]).prefix_tokens > 400


def test_a_catalog_that_passes_through_has_no_working_set():
    tools = [Tool("read", "a"), Tool("write", "a")]
    prompt = Prompt(Catalog(tools), working_set=SMALL)
    prompt.called("a/read")
    turn = prompt.turn(["a/read"], scored(["a/read", "a/write"]))
    assert prompt.shows_whole_catalog
    assert (turn.transient, turn.line_tokens, turn.left_out) == ((), 0, ())
    assert prompt.callable_ids == {"a/read", "a/write"}


@pytest.mark.parametrize("style", FORMATS)
def test_a_session_goes_on_where_it_was(style, demo):
    ids = [tool.id for tool in demo]
    one = Prompt(demo, format=style, working_set=SMALL)
    one.turn(ids[:9], scored(ids[:9]))
    one.called(FEED)
    one.turn(ids[:12], scored(ids[9:12]))
    other = Prompt(demo, format=style, working_set=SMALL)
    saved = json.loads(json.dumps(one.to_dict()))
    other.resume(saved)
    assert other.to_dict() == saved
    assert other.turn(ids[:14], scored(ids[12:14])) == one.turn(ids[:14], scored(ids[12:14]))


@pytest.mark.parametrize("history", [3, {"servers": 3}, {"tools": None}])
def test_what_is_no_history_is_refused(history, demo):
    saved = Prompt(demo, working_set=SMALL).to_dict() | {"history": history}
    with pytest.raises(RequestError, match="damaged"):
        Prompt(demo, working_set=SMALL).resume(saved)


@pytest.mark.parametrize("bounds", [(10, 11, 3), (10, -1, 3), (10, 5, -1)])
def test_bounds_out_of_range_are_refused(bounds):
    with pytest.raises(RequestError, match="working set"):
        WorkingSet(*bounds)


class TestSession:
    """A line counts as what a pool of arguments says does."""

    def test_a_call_of_a_server_in_use_passes_if_it_fits_and_is_told_the_schema_if_not(
        self, engine
    ):
        session = engine.session(format="openai_call_tool", pool_tokens=1_500, in_use_tokens=1_000)
        session.turn("what is on the web page about frobnication?")
        page = {"url": "https://example.org"}
        if not session.check("web/fetch_page", page).passed:
            assert session.check("web/fetch_page", page).passed
        session.result("web/fetch_page", "Nothing.")
        session.turn("frobnicate the whatsit")
        assert FEED not in session.active
        assert session.level(FEED) == "arguments"
        wrong = session.check(FEED, {"limit": "many"})
        assert wrong.status == "promoted"
        assert "url" in wrong.to_dict()["input_schema"]["properties"]
        assert FEED in str(wrong.append)
        assert session.check(FEED, {"url": "https://example.org/feed"}).passed
        assert session.check("web/search_web", {"query": "weather"}).passed

    def test_what_was_found_and_only_told_may_be_called(self, engine):
        session = engine.session(
            format="openai_call_tool", pool_tokens=1_500, in_use_tokens=1_000, k=2
        )
        turn = session.turn("read the feed of a page on the web")
        assert len(turn.shown.details) == len(turn.active) == 2
        assert turn.transient
        assert len(turn.callable) > 10
        fitting = {
            one: example_arguments(engine.catalog.get(one).input_schema) for one in turn.callable
        }
        statuses = {session.check(name, given).status for name, given in fitting.items()}
        assert statuses == {"passed"}

    def test_an_event_counts_the_lines_of_a_turn(self, engine):
        events = []
        prompt = Prompt(engine.catalog, working_set=SMALL)
        ids = [tool.id for tool in engine.catalog][:9]
        turn = prompt.turn(ids, scored(ids))
        Recorder(events.append).prompt("one", 1, turn)
        assert turn.line_tokens > 0
        assert events[0].phase2_tokens == turn.promoted_tokens + turn.line_tokens
