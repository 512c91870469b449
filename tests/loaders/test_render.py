"""Every provider format against the provider's own types."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from shortlist.catalog import Tool
from shortlist.errors import RequestError
from shortlist.loaders.levels import Detail, definition_text
from shortlist.loaders.prompt_layout import Layout
from shortlist.loaders.render import FORMATS, RenderedPrompt, renderer_for
from shortlist.loaders.render.call_tool import CALL_TOOL
from shortlist.loaders.render.provider_tools import provider_name
from shortlist.loaders.render.renderer import deferred_entry, write_entry

MARK = {"type": "ephemeral"}
LINES = "web/ (1):\n read_feed(url)\n"


def layout_of(style: str, tools: list[Tool]) -> Layout:
    """Two resident, two promoted at each level, in two batches."""
    write = partial(write_entry, renderer_for(style))
    levels = [*Detail, *Detail]
    entries = [write(tool, level, "Do it") for tool, level in zip(tools[2:], levels, strict=False)]
    resident = tuple(write(tool, Detail.FULL, "") for tool in tools[:2])
    renderer = renderer_for(style)
    deferred = tuple(deferred_entry(renderer, tool) for tool in tools if renderer.defers_tools)
    layout = Layout("Be brief.", "The pool.\n", resident, deferred=deferred)
    return layout.promote(entries[:4]).promote(entries[4:])


def validate(rendered: RenderedPrompt, style: str) -> None:
    """Build the SDK's own types from what was rendered; keys they do not know are an error."""
    if style.startswith("anthropic"):
        types = pytest.importorskip("anthropic.types")
        tool, message = types.ToolParam, types.MessageParam
        system = list[types.TextBlockParam]
    elif style.startswith("openai_responses"):
        types = pytest.importorskip("openai.types.responses")
        tool, message = types.ToolParam, types.ResponseInputItemParam
        system = str
    else:
        types = pytest.importorskip("openai.types.chat")
        tool, message = types.ChatCompletionToolParam, types.ChatCompletionMessageParam
        system = str
    messages = [one for batch in rendered.messages for one in batch]
    messages.append(renderer_for(style).message(LINES))
    for kind, value in (
        (list[tool], rendered.tools),
        (list[message], messages),
        (system, rendered.system),
    ):
        adapter = adapter_of(kind)
        assert _plain(adapter.validate_python(value)) == _plain(value)


@cache
def adapter_of(kind) -> TypeAdapter:
    """Kept, because the iterators it gives do not keep it alive."""
    return TypeAdapter(kind)


def _plain(value):
    """What a type adapter gave as plain data; the SDKs' types hold lazy iterators."""
    if isinstance(value, dict):
        return {key: _plain(child) for key, child in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    return [_plain(child) for child in value]


@pytest.mark.parametrize("style", FORMATS)
def test_formats_validate_against_the_types_of_their_provider(style, demo):
    tools = list(demo)[:10]
    layout = layout_of(style, tools)
    validate(renderer_for(style).render(layout), style)
    validate(renderer_for(style).render(replace(layout, servers_in_use_text=LINES)), style)
    validate(renderer_for(style).render(Layout("", "", ())), style)
    validate(renderer_for(style).render(Layout("", "", (), servers_in_use_text=LINES)), style)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_also_with_tools_nobody_would_write(tools, data):
    drawn = data.draw(st.lists(tools, min_size=10, max_size=10, unique_by=lambda tool: tool.id))
    for style in FORMATS:
        validate(renderer_for(style).render(layout_of(style, drawn)), style)


def test_openai_lists_resident_tools_then_promoted_ones_in_order(demo):
    tools = list(demo)[:10]
    rendered = renderer_for("openai").render(layout_of("openai", tools))
    named = [tool["function"]["name"] for tool in rendered.tools]
    called = [*tools[:2], *tools[4:6], *tools[8:10]]
    assert named == [provider_name(tool.id) for tool in called]
    bare, full = (tool["function"] for tool in rendered.tools[2:4])
    assert full["description"] == tools[5].description
    assert full["parameters"] == tools[5].input_schema
    assert bare["description"] == "Do it"
    assert '"description": "' not in json.dumps(bare["parameters"])
    assert rendered.system == "Be brief.\n\nThe pool.\n"
    told = rendered.messages[0][0]["content"]
    assert told == f"Tools loaded:\n{tools[2].id}\n{tools[3].id}: Do it\n"


def test_anthropic_marks_the_breakpoints(demo):
    rendered = renderer_for("anthropic").render(layout_of("anthropic", list(demo)[:10]))
    assert ["cache_control" in tool for tool in rendered.tools] == [False] * 5 + [True]
    assert rendered.tools[-1]["cache_control"] == MARK
    assert rendered.system[-1]["cache_control"] == MARK


def test_anthropic_search_defers_what_is_promoted_and_refers_to_it(demo):
    tools = list(demo)[:10]
    rendered = renderer_for("anthropic_search").render(layout_of("anthropic_search", tools))
    listed = rendered.tools
    assert [tool.get("defer_loading", False) for tool in listed] == [False] * 3 + [True] * 8
    assert [tool.get("cache_control") for tool in listed] == [None, None, MARK] + [None] * 8
    assert listed[2]["name"] == "search_tools"
    identities = set()
    for batch, asked in zip(rendered.messages, (tools[2:6], tools[6:10]), strict=True):
        call, result = batch[0]["content"][0], batch[1]["content"][0]
        assert call["name"] == "search_tools"
        assert call["id"] == result["tool_use_id"]
        identities.add(call["id"])
        references = [c["tool_name"] for c in result["content"] if c["type"] == "tool_reference"]
        assert references == [provider_name(tool.id, 128) for tool in asked[2:]]
        assert set(references) < {tool["name"] for tool in listed if tool.get("defer_loading")}
    assert len(identities) == 2


@pytest.mark.parametrize("style", ["openai_call_tool", "anthropic_call_tool"])
def test_the_one_tool_never_changes_and_definitions_travel_in_messages(style, demo):
    tools = list(demo)[:10]
    renderer = renderer_for(style)
    layout = layout_of(style, tools)
    rendered, before = renderer.render(layout), renderer.render(layout.rebuild(()))
    assert rendered.tools == before.tools
    assert len(rendered.tools) == 2
    assert CALL_TOOL.description in json.dumps(rendered.tools)
    full = definition_text(tools[5].id, tools[5].description, tools[5].input_schema)
    assert full in rendered.segments[3].splitlines()
    assert rendered.segments[: len(before.segments)] == before.segments
    assert tools[0].id in rendered.prefix


@pytest.mark.parametrize("style", FORMATS)
def test_the_prefix_does_not_depend_on_what_is_promoted(style, demo):
    layout = layout_of(style, list(demo)[:10])
    renderer = renderer_for(style)
    assert renderer.render(layout).prefix == renderer.render(layout.rebuild(())).prefix
    assert "The pool." in renderer.render(layout).prefix


def test_plain_text_says_everything_under_ids(demo):
    tools = list(demo)[:10]
    rendered = renderer_for("text").render(layout_of("text", tools))
    assert rendered.tools == []
    assert rendered.messages[0][0]["content"].splitlines()[1:3] == [
        tools[2].id, f"{tools[3].id}: Do it",
    ]  # fmt: skip


def test_an_unknown_format_names_those_there_are():
    with pytest.raises(RequestError, match="openai_call_tool"):
        renderer_for("nonsense")
