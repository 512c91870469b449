from __future__ import annotations

import json
import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.catalog import Catalog, Tool
from shortlist.errors import RequestError, UnknownToolError
from shortlist.loaders import Detail
from shortlist.loaders.pool import PoolLevel, PoolWriter
from shortlist.loaders.prompt import Prompt
from shortlist.loaders.render import FORMATS
from shortlist.loaders.render.renderer import batch_texts
from shortlist.loaders.schemas import SchemaLoader

STABLE = ("text", "anthropic_search", "openai_call_tool", "anthropic_call_tool")


def random_turns(ids: list[str], turns: int, seed: int):
    """Active ids per turn: some come, now and then some go."""
    choose = random.Random(seed)
    active: list[str] = []
    for _ in range(turns):
        active += [one for one in choose.sample(ids, choose.randrange(4)) if one not in active]
        if len(active) > 12:
            active = choose.sample(active, 8)
        yield list(active)


@pytest.mark.parametrize("style", FORMATS)
def test_the_prefix_is_identical_over_many_turns(style, demo):
    prompt = Prompt(demo, format=style, operator="You are an agent.")
    prefixes, seen = set(), set()
    for active in random_turns([tool.id for tool in demo], 300, 7):
        turn = prompt.turn(active)
        prefixes.add(turn.rendered.prefix.encode())
        seen.update(turn.details)
        assert turn.promoted_tokens <= 4_000
        if style in STABLE and not turn.rebuilt:
            assert turn.changed_bytes == 0
    assert len(prefixes) == 1
    assert len(seen) > 100


def test_what_was_written_stays_where_it_is(demo):
    prompt = Prompt(demo, format="openai_call_tool", schema_budget=50_000)
    ids = [tool.id for tool in demo]
    before = prompt.turn(ids[:3])
    assert list(before.details) == ids[:3]
    same = prompt.turn(ids[:3])
    assert same.appended == ()
    assert same.rendered == before.rendered
    after = prompt.turn(ids[:6])
    assert after.rendered.messages[: len(before.rendered.messages)] == before.rendered.messages
    assert [after.appended] == [tuple(after.rendered.messages[-1])]
    assert list(after.details) == ids[:6]
    written = "".join(after.rendered.segments)
    assert [written.count(f'{{"name":"{name}",') for name in ids[:6]] == [1] * 6


def test_a_tool_that_leaves_has_the_suffix_laid_out_anew(demo):
    prompt = Prompt(demo, schema_budget=50_000)
    ids = [tool.id for tool in demo][:6]
    prefix = prompt.turn(ids).rendered.prefix
    turn = prompt.turn(ids[1:4])
    assert turn.rebuilt
    assert list(turn.details) == ids[1:4]
    assert turn.rendered.prefix == prefix
    assert turn.changed_bytes > 0
    assert turn.appended == tuple(m for batch in turn.rendered.messages for m in batch)


def test_tokens_are_those_of_the_text(demo, counter):
    prompt = Prompt(demo, operator="You are an agent.")
    turn = prompt.turn([tool.id for tool in demo][:5])
    pool = PoolWriter().write(demo)
    assert abs(turn.prefix_tokens - pool.tokens) <= 2
    promoted = "".join(batch_texts(prompt._layout.batches))
    assert counter.count(promoted) == turn.promoted_tokens


@settings(max_examples=40, deadline=None)
@given(data=st.data(), budget=st.integers(0, 1_500), style=st.sampled_from(sorted(FORMATS)))
def test_whatever_the_catalog_the_schema_budget_holds(tools, counter, data, budget, style):
    catalog = Catalog(data.draw(st.lists(tools, min_size=1, max_size=8)))
    ids = [tool.id for tool in catalog]
    prompt = Prompt(catalog, format=style, schema_budget=budget, pass_through_share=0)
    for active in data.draw(st.lists(st.lists(st.sampled_from(ids), max_size=8), max_size=4)):
        turn = prompt.turn(active)
        assert turn.promoted_tokens <= budget
        written = [entry.text for entry in prompt._layout.promoted]
        assert counter.count("".join(f"{text}\n" for text in written)) <= budget
        assert set(turn.details) | set(turn.left_out) == set(active)
        assert len(written) == len(turn.details)


def test_the_first_of_a_turn_is_shown_in_full_however_full_the_suffix_is(demo):
    prompt = Prompt(demo, schema_budget=2_500)
    active: list[str] = []
    rebuilt = 0
    for tool in list(demo)[:40]:
        active = [*active[-7:], tool.id]
        turn = prompt.turn(active)
        assert turn.details[tool.id] is Detail.FULL
        assert all(turn.details[name] >= Detail.SIGNATURE for name in active)
        rebuilt += turn.rebuilt
    assert rebuilt < 40


def test_a_suffix_that_is_full_stays_as_it_is(demo):
    prompt = Prompt(demo, schema_budget=900)
    ids = [tool.id for tool in demo]
    first = prompt.turn(ids)
    assert first.left_out
    again = prompt.turn(ids)
    assert not again.rebuilt
    assert (again.appended, again.changed_bytes) == ((), 0)
    assert again.left_out == first.left_out


def test_what_is_found_again_can_be_called_again(demo):
    prompt = Prompt(demo, schema_budget=1_500)
    ids = [tool.id for tool in demo][:30]
    crowded = prompt.turn(ids)
    weak = [name for name in ids if crowded.details.get(name, Detail.NAME) < Detail.SIGNATURE]
    assert len(weak) > 5
    again = prompt.turn(ids, {weak[0]: 0.9, weak[1]: 0.8})
    assert again.details[weak[0]] is Detail.FULL
    assert again.details[weak[1]] >= Detail.SIGNATURE
    assert not prompt.turn(ids, {weak[0]: 0.9}).rebuilt


def test_a_full_suffix_keeps_the_latest(demo):
    prompt = Prompt(demo, schema_budget=1_500, turn_budget=0)
    ids = [tool.id for tool in demo][:40]
    for end in range(4, 41, 4):
        turn = prompt.turn(ids[:end])
        assert all(turn.details[name] >= Detail.SIGNATURE for name in ids[end - 4 : end])
    assert turn.left_out
    assert max(map(ids.index, turn.left_out)) < min(map(ids.index, turn.details)) + 8


def test_what_the_pool_says_is_not_said_again(demo):
    ids = [tool.id for tool in demo]
    for budget, room, least in (
        (9_000, 600, Detail.SIGNATURE),
        (700, 700, Detail.SUMMARY),
        (0, 600, Detail.NAME),
    ):
        prompt = Prompt(demo, pool=PoolWriter(budget=budget), schema_budget=room)
        assert min(prompt.turn(ids).details.values()) is least


def test_a_turn_writes_no_more_than_it_may_unless_tools_could_not_be_called(demo, counter):
    ids = [tool.id for tool in demo]
    bounded = Prompt(demo, turn_budget=800, schema_budget=9_000)
    spent, active = 0, []
    for start in range(0, 25, 5):
        fresh = ids[start : start + 5]
        active += fresh
        turn = bounded.turn(active)
        assert turn.details[fresh[0]] is Detail.FULL
        assert all(turn.details[name] >= Detail.SIGNATURE for name in active)
        least = sum(
            bounded._placer.write(demo.get(name), level).tokens
            for name, level in zip(fresh, (Detail.FULL, *[Detail.SIGNATURE] * 4), strict=True)
        )
        assert turn.promoted_tokens - spent <= max(800, least + 3)
        spent = turn.promoted_tokens
    assert not turn.rebuilt
    assert spent < Prompt(demo, schema_budget=9_000).turn(active).promoted_tokens / 1.5


def test_scores_decide_who_gets_the_detail(demo):
    ids = [tool.id for tool in demo][:4]
    scores = dict(zip(ids, (1.0, 0.01, 0.01, 0.99), strict=True))
    costs = {name: Prompt(demo).turn([name]).promoted_tokens for name in ids}
    budget = costs[ids[0]] + costs[ids[3]] + 330  # and the signatures of the two others
    details = Prompt(demo, schema_budget=budget).turn(ids, scores).details
    assert details[ids[0]] is Detail.FULL
    assert details[ids[3]] is Detail.FULL
    assert details[ids[1]] < Detail.FULL


def test_a_missing_definition_degrades_to_its_summary_and_is_named(demo):
    ids = [tool.id for tool in demo][:3]
    source = Catalog([demo.get(name) for name in ids[1:]])
    prompt = Prompt(demo, format="openai", schemas=SchemaLoader(source))
    turn = prompt.turn(ids)
    assert [missing.tool_id for missing in turn.missing] == ids[:1]
    assert turn.details == {ids[0]: Detail.SUMMARY, ids[1]: Detail.FULL, ids[2]: Detail.FULL}
    assert len(turn.rendered.tools) == 2
    assert f"{ids[0]}: " in turn.rendered.messages[0][0]["content"]
    assert [missing.tool_id for missing in prompt.turn(ids).missing] == ids[:1]


def test_a_dead_source_costs_a_turn_its_timeout_once(demo):
    class Hanging:
        asked = 0

        def definitions(self, ids):
            self.asked += len(ids)
            threading.Event().wait(60)
            return {}

    source = Hanging()
    prompt = Prompt(demo, schemas=SchemaLoader(source, timeout=0.2))
    ids = [tool.id for tool in demo][:3]
    start = time.perf_counter()
    assert len(prompt.turn(ids).missing) == 3
    assert time.perf_counter() - start < 10
    assert len(prompt.turn(ids).missing) == 3
    assert source.asked == 3
    prompt.turn([])
    prompt.turn(ids[:1])
    assert source.asked == 4


def test_withheld_and_unknown_ids_are_told_and_not_shown(demo):
    prompt = Prompt(demo, withheld=["web/search_web"])
    turn = prompt.turn(["web/search_web", "no/such", "web/fetch_page"])
    assert list(turn.details) == ["web/fetch_page"]
    assert {m.tool_id: m.reason for m in turn.missing} == {
        "web/search_web": "is withheld", "no/such": "is not in the catalog",
    }  # fmt: skip
    assert "search_web" not in "".join(turn.rendered.segments)


class TestPassThrough:
    def test_a_small_catalog_is_shown_whole(self, demo):
        small = Catalog(tool for tool in demo if tool.server == "filesystem")
        for style in FORMATS:
            prompt = Prompt(small, format=style, withheld=["filesystem/write_file"])
            turn = prompt.turn(["filesystem/read_file"])
            assert prompt.shows_whole_catalog
            assert (turn.appended, turn.promoted_tokens, turn.left_out) == ((), 0, ())
            assert 1_000 < turn.prefix_tokens < 6_000
            text = "".join(turn.rendered.segments)
            assert "write_file" not in text.replace("or_write_file", "")[:400]
            assert prompt.turn(["filesystem/edit_file"]).rendered == turn.rendered

    def test_the_share_decides(self, demo):
        assert not Prompt(demo).shows_whole_catalog
        assert Prompt(demo, context_tokens=2_000_000).shows_whole_catalog
        assert Prompt(demo, pass_through_share=0.5).shows_whole_catalog
        assert not Prompt(Catalog(list(demo)[:1]), pass_through_share=0).shows_whole_catalog

    def test_it_is_decided_once(self, demo):
        prompt = Prompt(Catalog(list(demo)[:2]))
        prompt.update(demo)
        assert prompt.shows_whole_catalog
        assert prompt.turn([]).prefix_tokens > 40_000


class TestUpdate:
    def test_a_change_elsewhere_leaves_the_suffix(self, demo):
        prompt = Prompt(demo, format="openai_call_tool")
        before = prompt.turn(["web/fetch_page"])
        prompt.update(demo.add([Tool("brand_new", "zoo", "Feed the lion.")]))
        after = prompt.turn(["web/fetch_page"])
        assert not after.rebuilt
        assert after.rendered.messages == before.rendered.messages
        assert "zoo" in after.rendered.prefix
        assert after.changed_bytes > 5_000

    @pytest.mark.parametrize("how", ["changed", "removed", "withheld"])
    def test_a_promoted_tool_that_no_longer_holds_is_taken_out(self, demo, how):
        prompt = Prompt(demo)
        prompt.turn(["web/fetch_page", "web/search_web"])
        rest = demo.remove(["web/fetch_page"])
        changed = rest.add([Tool("fetch_page", "web", "Something else.")])
        newer = {"changed": changed, "removed": rest, "withheld": demo}[how]
        prompt.update(newer, withheld=["web/fetch_page"] if how == "withheld" else [])
        turn = prompt.turn(["web/fetch_page", "web/search_web"])
        assert turn.rebuilt
        text = "".join(turn.rendered.segments[1:])
        assert demo.get("web/fetch_page").description[:40] not in text
        assert ("Something else." in text) == (how == "changed")
        assert "web/search_web" in text


class TestResume:
    def saved(self, demo, style):
        prompt = Prompt(demo, format=style, schema_budget=2_000)
        ids = [tool.id for tool in demo]
        prompt.turn(ids[:3])
        prompt.turn(ids[:6])
        return json.loads(json.dumps(prompt.to_dict())), prompt, ids

    @pytest.mark.parametrize("style", FORMATS)
    def test_the_session_goes_on_byte_for_byte(self, demo, style):
        saved, prompt, ids = self.saved(demo, style)
        other = Prompt(demo, format=style, schema_budget=2_000)
        other.resume(saved)
        assert other.to_dict() == saved
        assert other.turn(ids[:7]) == prompt.turn(ids[:7])

    def test_a_tool_that_changed_meanwhile_has_the_suffix_laid_out_anew(self, demo):
        saved, _, ids = self.saved(demo, "text")
        changed = demo.remove(ids[:1]).add([Tool("list_pull_requests", "github", "Other.")])
        other = Prompt(changed)
        other.resume(saved)
        turn = other.turn(ids[:6])
        assert turn.rebuilt
        assert "Other." in "".join(turn.rendered.segments[1:])

    def test_passing_through_is_not_decided_again(self, demo):
        small = Prompt(Catalog(list(demo)[:2]))
        large = Prompt(demo)
        large.resume(small.to_dict())
        assert large.shows_whole_catalog
        assert large.turn([]).prefix_tokens > 40_000

    @pytest.mark.parametrize(
        "layout", [{}, {"batches": 3}, {"batches": [[["a"]]], "passes_through": 0}]
    )
    def test_anything_else_is_refused(self, demo, layout):
        history = Prompt(demo).to_dict()["history"]
        for saved in (layout, {"layout": layout}, {"layout": layout, "history": history}):
            with pytest.raises(RequestError, match="not a saved prompt"):
                Prompt(demo).resume(saved)


def test_a_catalog_may_change_twice_between_turns(demo):
    prompt = Prompt(demo)
    prompt.turn(["web/fetch_page"])
    prompt.update(demo.remove(["web/fetch_page"]))
    prompt.update(demo)
    assert not prompt.turn(["web/fetch_page"]).rebuilt


def test_the_model_calls_by_the_providers_name(demo):
    prompt = Prompt(demo, format="openai")
    prompt.turn(["web/fetch_page"])
    assert prompt.tool_id("web__fetch_page") == "web/fetch_page"
    with pytest.raises(UnknownToolError):
        prompt.tool_id("web__search_web")
    text = Prompt(demo)
    text.turn(["web/fetch_page"])
    assert text.tool_id("web/fetch_page") == "web/fetch_page"


def test_the_next_session_over_a_catalog_does_not_go_through_it(demo, monkeypatch):
    pools = PoolWriter(budget=3_000, top=PoolLevel.ARGUMENTS)
    first = Prompt(demo, pool=pools, withheld=["web/read_feed"])

    def walk(catalog):
        raise AssertionError("the catalog is gone through once more")

    monkeypatch.setattr(Catalog, "__iter__", walk)
    again = Prompt(demo, pool=pools, withheld=["web/read_feed"])
    assert again.callable_ids == first.callable_ids
    assert again.turn([]) == first.turn([])


@pytest.mark.parametrize(
    "settings", [{"schema_budget": -1}, {"context_tokens": 0}, {"pass_through_share": 2}]
)
def test_numbers_out_of_range_are_refused(settings, demo):
    with pytest.raises(RequestError):
        Prompt(demo, **settings)


@pytest.mark.no_cover
def test_ten_schemas_are_loaded_and_rendered_in_a_millisecond(demo):
    ids = [tool.id for tool in demo]
    choose = random.Random(3)
    for style in FORMATS:
        prompt = Prompt(demo, format=style, schema_budget=8_000)
        for start in range(0, 120, 10):
            prompt.turn(ids[start : start + 10])
        times = []
        for _ in range(200):
            active = choose.sample(ids, 10)
            begun = time.process_time()
            prompt.turn(active)
            times.append(time.process_time() - begun)
        assert sorted(times)[100] < 0.003  # 0.1-0.2 ms on an idle core; the machine may be busy
