from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import RequestError
from shortlist.loaders.levels import Detail
from shortlist.loaders.placement import Candidate, callable_level, pack

levels = st.dictionaries(st.sampled_from(Detail), st.integers(0, 500), min_size=1)
scores = st.floats(-10, 10) | st.floats(0, 1)


@st.composite
def candidates(draw, most=12):
    token_costs = draw(st.lists(levels, max_size=most))
    given_scores = sorted((draw(scores) for _ in token_costs), reverse=True)
    return [
        Candidate(f"t{n}", score, cost)
        for n, (score, cost) in enumerate(zip(given_scores, token_costs, strict=True))
    ]


def tool(name: str, score: float, full: int) -> Candidate:
    token_costs = {Detail.NAME: 4, Detail.SUMMARY: 20, Detail.SIGNATURE: 80, Detail.FULL: full}
    return Candidate(name, score, token_costs)


def test_with_room_everything_is_shown_in_full():
    listed = [tool(f"t{n}", 1 / (n + 1), 400) for n in range(10)]
    assert set(pack(listed, 4_000).values()) == {Detail.FULL}


def test_with_less_the_first_is_full_and_the_others_can_be_called():
    listed = [tool(f"t{n}", 1 - n / 20, 400) for n in range(10)]
    packed = pack(listed, 1_200)
    assert packed["t0"] is Detail.FULL
    assert set(list(packed.values())[1:]) == {Detail.SIGNATURE}
    assert list(packed) == [c.tool_id for c in listed]


def test_the_better_tool_gets_the_detail():
    listed = [tool("first", 0.9, 400), tool("good", 0.8, 400), tool("poor", 0.1, 400)]
    assert pack(listed, 400 + 400 + 80)["good"] is Detail.FULL
    assert pack(listed, 400 + 400 + 80)["poor"] is Detail.SIGNATURE


def test_all_can_be_called_before_a_second_one_is_shown_in_full():
    listed = [tool("first", 0.9, 400), tool("good", 0.8, 400), tool("poor", 0.001, 400)]
    assert pack(listed, 400 + 400 + 79) == {
        "first": Detail.FULL, "good": Detail.SIGNATURE, "poor": Detail.SIGNATURE,
    }  # fmt: skip
    assert pack(listed, 400 + 80 + 20)["poor"] is Detail.SUMMARY


def test_a_definition_that_is_shorter_than_its_signature_is_shown():
    short = Candidate("short", 0.1, {Detail.SIGNATURE: 30, Detail.FULL: 20})
    assert pack([tool("first", 1.0, 400), short], 420)["short"] is Detail.FULL


def test_a_first_tool_that_does_not_fit_gets_what_does():
    assert pack([tool("big", 1.0, 5_000), tool("small", 0.5, 100)], 1_000) == {
        "big": Detail.SIGNATURE, "small": Detail.FULL,
    }  # fmt: skip
    assert pack([tool("big", 1.0, 5_000)], 3) == {}
    assert pack([], 10) == {}


def test_logits_are_scores_too():
    packed = pack([tool("a", -1.0, 400), tool("b", -2.0, 400), tool("c", -9.0, 400)], 900)
    assert (packed["a"], packed["b"]) == (Detail.FULL, Detail.FULL)
    assert packed["c"] < Detail.FULL
    with pytest.raises(RequestError, match="finite"):
        pack([tool("a", float("nan"), 1)], 10)


@settings(max_examples=150, deadline=None)
@given(listed=candidates(), budget=st.integers(0, 2_000))
def test_the_budget_is_never_exceeded_and_the_first_is_served_first(listed, budget):
    packed = pack(listed, budget)
    assert sum(c.token_costs[packed[c.tool_id]] for c in listed if c.tool_id in packed) <= budget
    assert packed == pack(listed, budget)
    if listed:
        fitting = [level for level, cost in listed[0].token_costs.items() if cost <= budget]
        assert packed.get("t0") == max(fitting, default=None)


@settings(max_examples=150, deadline=None)
@given(listed=candidates(), budget=st.integers(0, 2_000))
def test_no_tokens_are_left_that_would_raise_a_tool(listed, budget):
    """Skipped tools, and tools below their highest level, do not fit in the tokens that remain."""
    packed = pack(listed, budget)
    room = budget - sum(c.token_costs[packed[c.tool_id]] for c in listed if c.tool_id in packed)
    for candidate in listed:
        token_costs, present = candidate.token_costs, packed.get(candidate.tool_id)
        if present is None:
            tried = {callable_level(token_costs), Detail.SUMMARY, Detail.NAME} & token_costs.keys()
            assert all(token_costs[level] > room for level in tried)
        elif present < max(token_costs):
            assert token_costs[max(token_costs)] - token_costs[present] > room


@settings(max_examples=150, deadline=None)
@given(listed=candidates(), budget=st.integers(0, 2_000))
def test_where_all_others_can_be_callable_they_are(listed, budget):
    packed = pack(listed, budget)
    least = {c.tool_id: c.token_costs[callable_level(c.token_costs)] for c in listed[1:]}
    first = listed[0].token_costs[packed["t0"]] if "t0" in packed else 0
    if first + sum(least.values()) <= budget:
        for candidate in listed[1:]:
            able = callable_level(candidate.token_costs)
            assert packed[candidate.tool_id] in (able, max(candidate.token_costs))


def test_a_short_tool_comes_before_a_slightly_better_long_one():
    listed = [
        Candidate("first", 1.0, {Detail.SIGNATURE: 10}),
        Candidate("long", 0.9, {Detail.SIGNATURE: 90}),
        Candidate("short", 0.8, {Detail.SIGNATURE: 30}),
        Candidate("poor", 0.1, {Detail.SIGNATURE: 30}),
    ]
    assert list(pack(listed, 100)) == ["first", "short", "poor"]
    assert list(pack(listed, 130)) == ["first", "long", "short"]
