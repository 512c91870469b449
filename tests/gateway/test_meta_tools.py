"""The definitions of the meta-tools: what they cost, and what their annotations promise."""

from __future__ import annotations

import json

import pytest

from shortlist.gateway.meta_tools.meta_tool_definitions import (
    least_permissive,
    max_digest_tokens,
    meta_tools,
)
from shortlist.gateway.profiles.profile import Profile
from shortlist.loaders.counting import bundled_counter

from .fake_servers import DESTROY, READ, WRITE, FakeServer, gateway_of, relisted, tool


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
    for listed in meta_tools("", least_permissive([]), split_call_tool=split):
        assert listed.title
        only_reads = listed.name != "call_tool"
        assert listed.annotations.read_only_hint is only_reads
        assert listed.meta == {"anthropic/alwaysLoad": True}


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


READ_TOOL_NAMES = (
    *("a/write", "a/destroy", "a/bare", "a/READ", "a/re\u0430d", "a/read_tool", "a/run_code"),
    *("write", "a__write", "WRITE", "A/WRITE", " a/write", "a/write ", "a/write\u200b", "a//write"),
    *("read_tool", "call_tool", "run_code", "a/*", "", "a/read\0", "prompt://a/x", "skill://a/x"),
    *("a/secret", "secret", "a__secret", "b/other", "other", "shortlist://b/x", "ui://b/x"),
)


@pytest.mark.anyio
@pytest.mark.parametrize("split", [False, True])
async def test_read_tool_reaches_nothing_that_writes_or_is_not_permitted(tmp_path, split):
    writing = ("destroy", "READ", "re\u0430d", "read_tool", "run_code")
    first = FakeServer(
        "a",
        [
            *(tool("read", hints=READ), tool("secret", hints=READ), tool("bare")),
            *(tool("write", hints=WRITE), *(tool(name, hints=DESTROY) for name in writing)),
        ],
    )
    second = FakeServer("b", [tool("other", hints=READ)])
    permitted = ("a/read*", "a/write", "a/bare", "a/destroy", "a/R*", "a/re*", "a/run_code")
    profile = Profile(pass_through=0.0, split_call_tool=split, tools=permitted)
    async with gateway_of(tmp_path, first, second, profile=profile) as (client, made):
        for name in READ_TOOL_NAMES:
            answer = await client.call_tool("read_tool", {"name": name, "arguments": {}})
            assert answer.is_error, name
        assert (first.calls, second.calls) == ([], [])
        assert not (await client.call_tool("read_tool", {"name": "a/read"})).is_error
        await relisted(made, first, tool("read", "It writes now.", hints=DESTROY))
        assert (await client.call_tool("read_tool", {"name": "a/read"})).is_error
        assert first.calls == [("read", {})]
