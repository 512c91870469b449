"""The definitions of the meta-tools: what they cost, and what their annotations promise."""

from __future__ import annotations

import json

import pytest

from shortlist.gateway.meta_tools.meta_tool_definitions import (
    least_permissive,
    max_digest_tokens,
    meta_tools,
)
from shortlist.loaders.counting import bundled_counter


@pytest.mark.parametrize(
    ("split", "code", "extract", "least", "most"),
    [
        (False, False, False, 200, 930),
        (True, False, False, 140, 930),
        (False, True, False, 180, 1_100),
        (True, True, False, 80, 1_100),
        (True, True, True, 40, 1_100),
    ],
)
def test_they_cost_less_than_1100_tokens_with_the_longest_digest(split, code, extract, least, most):
    choices = {"split_call_tool": split, "with_run_code": code, "with_extract": extract}
    digest = "word " * max_digest_tokens(**choices)
    assert bundled_counter().count(digest) >= max_digest_tokens(**choices) >= least
    tools = meta_tools(digest, least_permissive([{}]), **choices)
    text = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])
    assert bundled_counter().count(text) < most


@pytest.mark.parametrize("split", [False, True])
def test_each_has_a_title_and_hints_and_stays_loaded(split):
    for tool in meta_tools("", least_permissive([]), split_call_tool=split):
        assert tool.title
        only_reads = tool.name != "call_tool"
        assert tool.annotations.read_only_hint is only_reads
        assert tool.meta == {"anthropic/alwaysLoad": True}


@pytest.mark.parametrize(
    ("annotations", "read_only", "destructive"),
    [
        ([], False, True),
        ([{"readOnlyHint": True}, {"readOnlyHint": True}], True, False),
        ([{"readOnlyHint": True}, {}], False, True),
        ([{"readOnlyHint": True}, {"destructiveHint": False}], False, False),
        ([{"readOnlyHint": "yes"}], False, True),
    ],
)
def test_call_tool_is_annotated_as_the_most_dangerous_tool_behind_it(
    annotations, read_only, destructive
):
    made = least_permissive(annotations)
    assert (made.read_only_hint, made.destructive_hint) == (read_only, destructive)
