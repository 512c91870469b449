"""The definitions of the meta-tools: what they cost, and what their annotations promise."""

from __future__ import annotations

import json

import pytest

from shortlist.gateway.answers import DIGEST_TOKENS
from shortlist.gateway.meta_tools import least_permissive, meta_tools
from shortlist.loaders.counting import bundled_counter


def test_they_cost_less_than_900_tokens_with_the_longest_digest():
    digest = "word " * DIGEST_TOKENS
    assert bundled_counter().count(digest) >= DIGEST_TOKENS
    tools = meta_tools(digest, least_permissive([{}]))
    text = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])
    assert bundled_counter().count(text) < 900


@pytest.mark.parametrize(
    ("annotations", "read_only", "destructive"),
    [
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
