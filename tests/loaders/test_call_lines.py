from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist import demo
from shortlist.catalog import Catalog, Tool
from shortlist.loaders.levels import compact_signature
from shortlist.loaders.pool import PoolLevel, blocks_by_server, lines_of_servers, lines_of_tools
from shortlist.loaders.summaries import Summaries

CATALOG = demo.load_catalog()
TOOLS = list(CATALOG)
MANY = 1_000_000


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOOLS), unique=True), st.integers(0, 2_000))
def test_they_never_take_more_than_their_budget(counter, tools, budget):
    taken = lines_of_tools(tools, budget)
    assert counter.count(taken.text) == taken.tokens <= budget
    kept = [tool for tool in tools if tool.id in taken.ids]
    if len(kept) < len(tools):
        left = next(tool for tool in tools if tool.id not in taken.ids)
        before = [tool for tool in kept if tools.index(tool) < tools.index(left)]
        assert lines_of_tools([*before, left], MANY).tokens > budget


@settings(deadline=None, max_examples=60)
@given(data=st.data(), budget=st.integers(0, 300))
def test_their_tokens_are_those_of_the_text_whatever_the_tools(tools, counter, data, budget):
    drawn = Catalog(data.draw(st.lists(tools, max_size=8)))
    servers: dict[str, list[Tool]] = {}
    for tool in drawn:
        servers.setdefault(tool.server or "", []).append(tool)
    for taken in (
        lines_of_tools(drawn, budget),
        lines_of_tools(drawn, MANY),
        lines_of_servers(servers.values(), budget),
        lines_of_servers(servers.values(), MANY),
    ):
        assert counter.count(taken.text) == taken.tokens
    assert lines_of_tools(drawn, budget).tokens <= budget
    assert lines_of_servers(servers.values(), budget).tokens <= budget


@settings(deadline=None)
@given(st.lists(st.sampled_from(TOOLS), unique=True))
def test_a_line_tells_what_a_call_takes(tools):
    taken = lines_of_tools(tools, MANY)
    blocks = blocks_by_server(tools, Summaries())
    assert taken.text == "".join(block.text(PoolLevel.ARGUMENTS) for block in blocks)
    assert taken.ids == {tool.id for tool in tools}
    for tool in tools:
        assert f" {tool.name}{compact_signature(tool)}\n" in taken.text
    assert taken.text.count("/ (") == len({tool.server for tool in tools})


def test_servers_stand_with_all_their_lines_or_not_at_all():
    servers: dict[str, list[Tool]] = {}
    for tool in TOOLS:
        servers.setdefault(tool.server or "", []).append(tool)
    one, other = servers["jira"], servers["web"]
    ids = [frozenset(tool.id for tool in tools) for tools in (one, other)]
    room = lines_of_tools(one, MANY).tokens
    assert lines_of_servers([one, other], room).ids == ids[0]
    assert lines_of_servers([one, other], room - 1).ids == ids[1]
    assert lines_of_servers([one, other], MANY).ids == ids[0] | ids[1]


def test_a_heading_of_four_digits_is_counted_as_one(counter):
    tools = [Tool(f"t{number}", "s") for number in range(1_001)]
    taken = lines_of_tools(tools, MANY)
    assert taken.text.startswith("s/ (1001):\n")
    assert counter.count(taken.text) == taken.tokens


def test_a_changed_tool_is_written_anew():
    tool = CATALOG.get("web/read_feed")
    longer = Tool(
        tool.name,
        tool.server,
        tool.description,
        {"type": "object", "properties": {f"argument_{number}": {} for number in range(20)}},
    )
    room = lines_of_tools([tool], 100).tokens
    assert not lines_of_tools([longer], room).ids
