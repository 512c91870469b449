"""What the model has read after some steps of a conversation, for each provider and way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from shortlist import Catalog, Engine, Session, State, Tool
from shortlist.catalog.schema import canonical_json
from shortlist.demo import load_catalog
from shortlist.errors import RequestError
from shortlist.gating import Rule, requires_scope
from shortlist.loaders.counting import bundled_counter
from shortlist.loaders.providers import PROVIDERS

from .replies import WAYS, way_name

#: Settings with which the tools of these tests are a catalog of that size.
SIZES: dict[str, dict[str, Any]] = {
    "small": {},
    "medium": {"pass_through": 0.0},
    "large": {"pass_through": 0.0, "pool_tokens": 300},
}
LIST, DRAFT, SHARE = "mail/list_message", "mail/list_draft", "music/share_song"
REQUEST = "list mail messages"
each_way = pytest.mark.parametrize("way", WAYS, ids=way_name)
each_size = pytest.mark.parametrize("size", SIZES)
APPENDING = [way for way in WAYS if way[1] != "list"]
each_appending_way = pytest.mark.parametrize("way", APPENDING, ids=way_name)


def session_of(engine: Engine, way: tuple[str, str], **settings: Any) -> Session:
    return engine.session(way[0], tools=way[1], **{"k": 1, **settings})


def text_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def changed(tools: Iterable[Tool], tool_id: str, description: str) -> list[Tool]:
    """The tools, one of them with another description."""
    return [
        Tool(tool.name, tool.server, description, tool.input_schema) if tool.id == tool_id else tool
        for tool in tools
    ]


@each_way
@each_size
def test_the_size_of_the_catalog_and_the_way_say_what_is_read(
    engine: Engine, way: tuple[str, str], size: str
) -> None:
    session = session_of(engine, way, **SIZES[size])
    assert session.level(LIST) is None
    turn = session.turn(REQUEST)
    expected = {
        # of the tool that fits, of one that was found as well, of one that was not
        "small": ("full", "full", "full"),
        "medium": ("full", "arguments", "arguments"),
        "large": ("full", "arguments", None),
    }[size]
    if way[1] == "list":
        expected = {"medium": ("full", "summary", "summary"), "large": ("full", None, None)}.get(
            size, expected
        )
    assert turn.ids == (LIST,)
    assert tuple(map(session.level, (LIST, DRAFT, SHARE))) == expected
    assert ({session.level(tool.id) for tool in engine.catalog} == {"full"}) is (size == "small")
    if size == "small" or way[1] == "list":
        assert turn.append == ()


def definition(way: tuple[str, str], tool: Tool) -> dict[str, Any]:
    """The tool as an entry of the provider's list of tools."""
    provider = PROVIDERS[way[0]]
    return provider.function(provider.name_of(tool.id), tool.description, tool.input_schema)


LINE = (
    'Tools loaded:\n{"name":"mail/list_message","description":"List a message of the user",'
    '"input_schema":{"additionalProperties":false,"properties":{"count":{"minimum":1,"type":'
    '"integer"},"id":{"type":"string"}},"required":["id"],"type":"object"}}\n'
)


@each_way
def test_how_each_way_appends_a_definition(engine: Engine, way: tuple[str, str]) -> None:
    session = session_of(engine, way, pass_through=0.0)
    turn = session.turn(REQUEST)
    function = definition(way, engine.catalog.get(LIST))
    search = {"query": "tools for this turn"}
    call_id = "call_shortlist_000001"
    reference = {"type": "tool_reference", "tool_name": "mail__list_message"}
    namespace = {"type": "namespace", "name": "mail", "description": "Tools of mail."}
    found = {"call_id": call_id, "execution": "client", "status": "completed"}
    deferred = {**function, "defer_loading": True}
    expected: dict[tuple[str, str], list[Any]] = {
        ("openai", "call_tool"): [{"role": "system", "content": LINE}],
        ("openai_responses", "call_tool"): [{"role": "system", "content": LINE}],
        ("text", "call_tool"): [{"role": "system", "content": LINE}],
        ("anthropic", "call_tool"): [
            {"role": "user", "content": [{"type": "text", "text": LINE}]},
        ],
        ("anthropic", "append"): [
            {
                "role": "system",
                "content": [
                    {
                        "type": "tool_addition",
                        "tool": {"type": "tool_definition", "definition": function},
                    }
                ],
            }
        ],
        ("anthropic", "search"): [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": call_id, "name": "search_tools", "input": search}
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call_id, "content": [reference]}
                ],
            },
        ],
        ("openai_responses", "append"): [
            {"type": "additional_tools", "role": "developer", "tools": [function]}
        ],
        ("openai_responses", "search"): [
            {"type": "tool_search_call", "arguments": search, **found},
            {
                "type": "tool_search_output",
                "tools": [{**namespace, "tools": [deferred]}],
                **found,
            },
        ],
    }
    assert list(turn.append) == expected.get(way, [])
    assert turn.messages == ({"role": "user", "content": REQUEST}, *turn.append)
    names = [tool.get("name") or tool.get("function", {}).get("name") for tool in session.tools]
    own_names = {
        ("text", "call_tool"): [],
        ("openai_responses", "search"): [None, "call_tool"],
        ("anthropic", "search"): ["search_tools", "call_tool"],
    }
    listed = {"list": ["search_tools", "mail__list_message"]}.get(
        way[1], own_names.get(way, ["call_tool", "search_tools"])
    )
    if way == ("anthropic", "search"):
        assert session.tools[2:] == [
            {**definition(way, tool), "defer_loading": True}
            for tool in sorted(engine.catalog, key=lambda tool: tool.id)
        ]
        names = names[:2]
    assert names == listed


@each_way
@each_size
def test_what_was_read_is_not_repeated(engine: Engine, way: tuple[str, str], size: str) -> None:
    session = session_of(engine, way, **SIZES[size])
    messages = [*session.turn(REQUEST).messages]
    key = "input" if way[0] == "openai_responses" else "messages"
    for text in (REQUEST, "and list my mail messages again"):
        before = session.request(messages)
        messages.append({"role": "assistant", "content": "You have none."})
        turn = session.turn(text)
        assert turn.ids == (LIST,)
        assert LIST not in turn.shown.levels or way[1] == "list"
        assert not turn.shown.head_is_new
        assert "Tools loaded" not in text_of(turn.append)
        messages += turn.messages
        after = session.request(messages)
        assert after[key][: len(before[key])] == before[key]
        assert after.get("tools") == before.get("tools")


@each_way
def test_the_head_of_a_request(engine: Engine, way: tuple[str, str]) -> None:
    session = session_of(engine, way, pass_through=0.0, instructions="Be brief.")
    system_before = session.system
    turn = session.turn(REQUEST)
    assert session.system == system_before
    request = session.request(turn.messages)
    assert session.system.startswith("Be brief.\n\n60 tools on 5 servers.\n")
    if way[0] == "anthropic":
        mark = {"cache_control": {"type": "ephemeral"}}
        assert request["system"] == [{"type": "text", "text": session.system, **mark}]
        resident = [tool for tool in request["tools"] if not tool.get("defer_loading")]
        assert resident == request["tools"][: len(resident)]
        assert ["cache_control" in tool for tool in request["tools"]].index(True) == (
            len(resident) - 1
        )
        assert ("betas" in request) is (way[1] == "append")
    elif way[0] == "openai_responses":
        assert (request["instructions"], request["input"]) == (session.system, [*turn.messages])
    else:
        assert request["messages"] == [
            {"role": "system", "content": session.system},
            *turn.messages,
        ]
    if way[0] != "anthropic":
        assert request.get("tools", []) == session.tools
    # A request without content has no keys for it: the providers refuse empty ones.
    empty = session_of(Engine.from_tools([], tiers=["lexical"]), (way[0], way[1]))
    empty.turn(REQUEST)
    assert all(empty.request([{"role": "user", "content": "x"}]).values())


@each_appending_way
def test_a_large_catalog_gets_lines_of_tools_found_and_of_called_servers(
    engine: Engine, way: tuple[str, str]
) -> None:
    session = session_of(engine, way, pass_through=0.0, pool_tokens=300, must_offer=False)
    first = session.turn("share a song")
    assert "calendar/ (12): about event, reminder" in session.system
    assert "Also found" in text_of(first.append)
    assert ("call them with call_tool" in text_of(first.append)) == (way[0] != "text")
    lined = {tool_id for tool_id, level in first.shown.levels.items() if level.label == "arguments"}
    assert lined
    assert all("share" in tool_id or "song" in tool_id or "music" in tool_id for tool_id in lined)
    unread = "weather/delete_storm"
    assert session.level(unread) is None
    assert session.check("weather/read_storm", {"id": "1"}).passed
    session.record_call("weather/read_storm", ok=False)
    assert session.level(unread) is None
    assert session.check("weather/read_storm", {"id": "1"}).passed
    assert session.level(unread) is None
    session.result("weather/read_storm", "It is calm.")
    of_weather = {tool.id for tool in engine.catalog if tool.server == "weather"}
    assert {session.level(tool_id) for tool_id in of_weather} <= {"arguments", "full"}
    # Each line is read once.
    again = session.turn("read the storm")
    assert not again.shown.levels.keys() & (lined - {"weather/read_storm"})
    assert session.level(unread) == "arguments"


def test_lines_are_bounded_over_all_turns_and_then_for_each_turn() -> None:
    engine = Engine.from_tools(load_catalog(), tiers=["lexical"])
    session = engine.session("openai", k=1, pass_through=0.0, pool_tokens=900)
    used, count = 0, bundled_counter().count
    for text in (
        "create an issue",
        "read a file",
        "send a message",
        "run a query",
        "plan a sprint",
    ):
        tokens = 0
        for message in session.turn(text).append:
            lines = message["content"].partition("Also found; call them with call_tool:\n")[2]
            tokens += count(lines)
        assert tokens <= max(900 - used, 450)
        used += tokens
    assert used > 900


def test_a_called_server_that_takes_more_than_the_pool_gets_no_lines(engine: Engine) -> None:
    session = engine.session("openai", k=1, pass_through=0.0, pool_tokens=30, must_offer=False)
    session.turn("read the storm")
    assert session.check("weather/read_storm", {"id": "1"}).passed
    session.result("weather/read_storm", "It is calm.")
    weather = [tool.id for tool in engine.catalog if tool.server == "weather"]
    assert None in map(session.level, weather)


@pytest.mark.parametrize("turn_tokens", [0, 40, 200, 600])
@each_appending_way
def test_definitions_of_a_turn_keep_its_budget(
    engine: Engine, way: tuple[str, str], turn_tokens: int
) -> None:
    """What does not fit in full is read by signature, and what does not fit so has its line."""
    session = session_of(engine, way, k=8, pass_through=0.0, turn_tokens=turn_tokens)
    turn = session.turn("share the song of a message")
    levels = [session.level(tool_id) for tool_id in turn.ids]
    assert len(levels) == 8
    if turn_tokens == 0:
        assert set(levels) == {"arguments"}
    if turn_tokens == 600:
        assert set(levels) == {"full"}
    loaded = [level for level in levels if level != "arguments"]
    assert levels == loaded + ["arguments"] * (8 - len(loaded))
    if way[1] in ("call_tool", "append"):
        assert turn.shown.message_tokens <= turn_tokens + 40
    found = session.search("share the playlist or a folder")
    assert all(session.level(tool_id) for tool_id in found.ids)


def test_a_search_by_the_model_has_the_definitions_of_two_turns(engine: Engine) -> None:
    session = engine.session("openai", k=8, pass_through=0.0, turn_tokens=100)
    session.turn(REQUEST)
    _, _, definitions = session.search("share a storm").shown.answer.partition("Tools loaded:\n")
    definitions = definitions.partition("Also found")[0]
    assert 100 < bundled_counter().count(definitions) <= 200


def test_lines_of_what_fits_no_definition_are_appended_in_a_large_catalog(engine: Engine) -> None:
    session = engine.session("openai", k=3, pass_through=0.0, pool_tokens=0, turn_tokens=0)
    turn = session.turn(REQUEST)
    assert [session.level(tool_id) for tool_id in turn.ids] == ["arguments"] * 3
    assert all(session.check(tool_id, {"id": "1"}).passed for tool_id in turn.ids)


@each_appending_way
def test_a_search_names_tools_with_a_line_that_no_definition_fits(
    engine: Engine, way: tuple[str, str]
) -> None:
    session = session_of(engine, way, k=2, pass_through=0.0, turn_tokens=0)
    session.turn(REQUEST)
    turn = session.search("list message draft of mail")
    names = ", ".join(turn.ids)
    how = "" if way[0] == "text" else "; call them with call_tool"
    expected = f"Also found, with a line above{how}: {names}\n"
    answer = turn.shown.answer
    assert (answer if isinstance(answer, str) else answer[0]["text"]) == expected
    assert set(turn.ids) == {LIST, DRAFT}


class TestList:
    """The way `list`: found tools are entries of the provider's list of tools."""

    each_provider = pytest.mark.parametrize("provider", ["openai", "openai_responses", "anthropic"])

    @each_provider
    def test_the_list_keeps_its_budget_and_the_tools_found_or_called_last(
        self, engine: Engine, provider: str
    ) -> None:
        session = engine.session(
            provider, tools="list", k=4, pass_through=0.0, list_tokens=300, must_offer=False
        )
        called = "mail/list_message"
        session.turn(REQUEST)
        for text in ("share a song", "delete a folder", "read a storm", "create an event"):
            assert session.check(called, {"id": "1"}).passed
            session.record_call(called)
            turn = session.turn(text)
            names = [tool.get("name") or tool["function"]["name"] for tool in session.tools]
            assert names[0] == "search_tools"
            assert names[1:] == sorted(name.replace("/", "__") for name in session.active)
            assert called in session.active
            assert turn.ids[0] in session.active
            tokens = sum(bundled_counter().count(text_of(tool)) for tool in session.tools[1:])
            assert tokens <= 450
            assert turn.shown.head_is_new
            assert turn.append == ()
        assert (session.level(SHARE) in ("signature", "full")) is (SHARE in session.active)
        assert len(session.active) < 12

    @each_provider
    def test_the_best_tool_found_is_in_a_list_with_room_for_one(
        self, engine: Engine, provider: str
    ) -> None:
        session = engine.session(provider, tools="list", k=3, pass_through=0.0, list_tokens=80)
        for text in ("share a song", REQUEST, "read the storm"):
            turn = session.turn(text)
            assert len(turn.ids) == 3
            assert session.active[0] == turn.ids[0]

    @each_provider
    def test_a_search_says_which_tools_were_added(self, engine: Engine, provider: str) -> None:
        session = engine.session(provider, tools="list", k=1, pass_through=0.0, list_tokens=150)
        session.turn(REQUEST)
        assert session.search("share a song").shown.answer == (
            "Added to your list of tools: music__share_song"
        )
        assert session.search("share a song").shown.answer == "You already have: music__share_song"
        two = engine.session(provider, tools="list", k=2, pass_through=0.0, list_tokens=60)
        two.turn(REQUEST)
        assert "Also found; search for the name of one to add it: " in str(
            two.search("share a song").shown.answer
        )
        names = [tool.get("name") or tool["function"]["name"] for tool in session.tools]
        assert "music__share_song" in names

    @each_provider
    def test_what_is_no_longer_permitted_leaves_the_list(
        self, fresh_engine: Callable[..., Engine], provider: str
    ) -> None:
        engine = fresh_engine(Rule(requires_scope("share"), tools="*/share_*"))
        session = engine.session(
            provider, tools="list", k=1, pass_through=0.0, state=State({"share"})
        )
        session.turn("share a song")
        assert "share_song" in text_of([session.system, session.tools])
        session.state = State()
        assert "share_song" not in text_of(session.tools)
        assert session.level(SHARE) is None


class TestChanges:
    """What a conversation says of tools that go, come back, change, or are quarantined."""

    @each_appending_way
    def test_a_denied_tool_is_named_once_and_again_when_it_is_permitted(
        self, fresh_engine: Callable[..., Engine], way: tuple[str, str]
    ) -> None:
        engine = fresh_engine(Rule(requires_scope("share"), tools="*/share_*"))
        session = session_of(engine, way, pass_through=0.0, state=State({"share"}))
        messages = [*session.turn("share a song").messages]
        head = session.system
        session.state = State()
        turn = session.turn(REQUEST)
        messages += turn.messages
        removal = text_of(turn.append)
        name = "music__share_song" if way == ("anthropic", "append") else SHARE
        if way == ("anthropic", "append"):
            block = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}}
            assert block in turn.append[0]["content"]
        assert "No longer available: " in removal  # of those with a line, in any way
        assert removal.count("share_song") == 1
        assert [(one.tool_id, one.kind) for one in turn.left] == [(SHARE, "scope")]
        assert session.level(SHARE) is None
        turn = session.turn("list mail drafts")
        assert "share_song" not in text_of(turn.append)
        messages += turn.messages
        session.state = State({"share"})
        turn = session.turn("share a song")
        assert turn.ids == (SHARE,)
        assert session.level(SHARE) == "full"
        if way == ("anthropic", "append"):
            block = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": name}}
            assert block in turn.append[0]["content"]
        else:
            shown_name = "music__share_song" if way[1] in ("append", "search") else SHARE
            assert f"Available again: {shown_name}" in text_of(turn.append)
        assert "Share a song" not in text_of(turn.append)
        assert session.system == head

    def test_a_search_also_restores_what_the_provider_removed(
        self, fresh_engine: Callable[..., Engine]
    ) -> None:
        engine = fresh_engine(Rule(requires_scope("share"), tools="*/share_*"))
        session = engine.session("anthropic", tools="append", pass_through=0.0, k=1)
        session.state = State({"share"})
        session.turn("share a song")
        session.state = State()
        assert "tool_removal" in text_of(session.turn(REQUEST).append)
        session.state = State({"share"})
        answer, additions = session.search("share a song", "call_1").append
        assert answer["content"][0]["content"] == "You already have: music__share_song"
        reference = {"type": "tool_reference", "name": "music__share_song"}
        assert additions["content"] == [{"type": "tool_addition", "tool": reference}]

    @each_appending_way
    def test_a_tool_that_left_the_catalog(
        self, fresh_engine: Callable[..., Engine], tools: list[Tool], way: tuple[str, str]
    ) -> None:
        engine = fresh_engine()
        session = session_of(engine, way, pass_through=0.0)
        session.turn("share a song")
        engine.replace(tool for tool in tools if tool.id != SHARE)
        turn = session.turn(REQUEST)
        assert [(one.tool_id, one.kind) for one in turn.left] == [(SHARE, "vanished")]
        assert text_of(turn.append).count("share_song") == 1
        assert session.level(SHARE) is None
        assert "share_song" not in text_of(session.turn(REQUEST).append)

    @each_appending_way
    def test_a_changed_definition_is_appended_again(
        self, fresh_engine: Callable[..., Engine], tools: list[Tool], way: tuple[str, str]
    ) -> None:
        engine = fresh_engine()
        session = session_of(engine, way, pass_through=0.0)
        session.turn("share a song")
        head = session.system
        engine.replace(changed(tools, SHARE, "Sell a song"))
        turn = session.turn(REQUEST)
        assert turn.changed == (SHARE,)
        assert "Sell a song" in text_of(turn.append)
        assert session.level(SHARE) == "full"
        assert session.check(SHARE, {"id": "1"}).passed
        assert "Sell a song" not in text_of(session.turn("share a song").append)
        assert session.system == head

    @each_way
    @each_size
    def test_a_quarantined_definition_is_in_no_request(
        self, fresh_engine: Callable[..., Engine], way: tuple[str, str], size: str
    ) -> None:
        engine = fresh_engine()
        session = session_of(engine, way, **SIZES[size])
        messages = [*session.turn("share a song").messages]
        messages += session.search("share a playlist", "call_1").append
        promoted = session.check("music/create_song", {"id": 7})
        messages.append({"role": "tool", "tool_call_id": "call_2", "content": promoted.text})
        assert "share_song" in text_of(session.request(messages))
        held = (SHARE, "music/share_playlist", "music/create_song")
        engine.quarantine(dict.fromkeys(held, "under review"))
        request = session.request(messages)
        told = text_of(request).replace("mail", "")
        for text in ("Share a song", "Share a playlist", "Create a song", "share_song("):
            assert text not in told
        assert messages[0] in request["input" if way[0] == "openai_responses" else "messages"]
        assert session.level(SHARE) is None
        assert session.check(SHARE, {"id": "1"}).status == "denied"
        engine.quarantine({})
        turn = session.turn("share a song")
        assert session.level(SHARE) == "full"
        messages += turn.messages
        if way[1] != "list":
            assert "Share a song" in text_of(session.request(messages))

    @each_appending_way
    def test_a_tool_that_came_is_appended_and_the_head_stays_until_much_is_wrong(
        self, fresh_engine: Callable[..., Engine], tools: list[Tool], way: tuple[str, str]
    ) -> None:
        engine = fresh_engine()
        session = session_of(engine, way, pass_through=0.0)
        session.turn(REQUEST)
        head = session.system
        lion = Tool("feed_lion", "zoo", "Feed the lion")
        engine.replace([*tools, lion])
        turn = session.turn("feed the lion")
        assert session.level("zoo/feed_lion") == "full"
        assert not turn.shown.head_is_new
        assert session.system == head
        engine.replace([*tools, lion, *(Tool(f"feed_{n}", "zoo", f"Feed {n}") for n in range(20))])
        turn = session.turn(REQUEST)
        assert turn.shown.head_is_new
        assert " feed_7()" in session.system
        assert session.level("zoo/feed_7") == "arguments"
        # What messages have said stays read.
        assert session.level("zoo/feed_lion") == "full"

    def test_two_changes_that_undo_each_other_say_nothing(
        self, fresh_engine: Callable[..., Engine], tools: list[Tool]
    ) -> None:
        engine = fresh_engine()
        session = engine.session("openai", k=1, pass_through=0.0)
        session.turn("share a song")
        engine.replace(tool for tool in tools if tool.id != SHARE)
        assert SHARE not in session.active
        engine.replace(tools)
        turn = session.turn("share a song")
        assert (turn.append, session.level(SHARE)) == ((), "full")

    @each_way
    @each_size
    def test_after_compaction_the_head_is_read_and_the_rest_appended_again(
        self, engine: Engine, way: tuple[str, str], size: str
    ) -> None:
        session = session_of(engine, way, **SIZES[size])
        session.turn("share a song")
        before = session.turn(REQUEST)
        session.compacted()
        expected = {"small": "full", "medium": "arguments", "large": None}[size]
        if way[1] != "list":
            assert session.level(SHARE) == expected
        turn = session.turn("share a song")
        assert turn.shown.message_tokens < before.shown.message_tokens or not turn.append
        assert ("share_song" in text_of(turn.append)) is (size != "small" and way[1] != "list")
        assert session.level(SHARE) == "full"


@each_way
@each_size
def test_a_resumed_session_goes_on_with_the_same_bytes(
    engine: Engine, way: tuple[str, str], size: str
) -> None:
    session = session_of(engine, way, must_offer=False, **SIZES[size])
    messages = [*session.turn(REQUEST).messages]
    assert session.check("weather/read_storm", {"id": "1"}).passed
    messages += session.result("weather/read_storm", "It is calm.").append
    messages += session.search("share a song", "call_1").append
    again = engine.resume(json.loads(json.dumps(session.save())), state=session.state)
    assert again.save() == session.save()
    for text in ("share a song", "read the storm", "delete a folder"):
        mine, other = session.turn(text), again.turn(text)
        assert mine.append == other.append
        assert mine.shown == other.shown
        messages += mine.messages
    assert again.request(messages) == session.request(messages)
    for tool in engine.catalog:
        assert again.level(tool.id) == session.level(tool.id)
        for arguments in ({"id": "1"}, {}):
            verdicts = [one.check(tool.id, arguments).status for one in (session, again)]
            assert verdicts[0] == verdicts[1]


@each_way
@each_size
def test_a_promoted_verdict_is_the_definition(
    engine: Engine, way: tuple[str, str], size: str
) -> None:
    """A call of a tool that the model has not read enough of is answered with its definition."""
    session = session_of(engine, way, **SIZES[size])
    session.turn(REQUEST)
    level = session.level(SHARE)
    verdict = session.check(SHARE, {"id": "1"})
    assert verdict.status == ("passed" if level in ("full", "arguments") else "promoted")
    wrong = session.check(SHARE, {"id": 7})
    if level == "arguments":
        assert wrong.status == "promoted"
    if "promoted" in (verdict.status, wrong.status):
        promoted = verdict if verdict.status == "promoted" else wrong
        assert json.loads(promoted.text)["input_schema"]["required"] == ["id"]
        assert SHARE in session.active
    else:
        assert wrong.status == "invalid"
    assert session.level(SHARE) == "full"
    assert session.check(SHARE, {"id": 7}).status == "invalid"
    turn = session.turn("share a song")
    assert "Share a song" not in text_of(turn.append)
    assert SHARE not in turn.shown.levels or way[1] == "list"


def test_without_a_provider_offered_tools_are_read_and_nothing_is_rendered(engine: Engine) -> None:
    session = engine.session(k=1)
    turn = session.turn(REQUEST)
    assert (turn.shown, turn.append) == (None, ())
    assert [session.level(tool_id) for tool_id in (LIST, SHARE)] == ["full", None]
    assert (session.system, session.tools) == (None, [])
    with pytest.raises(RequestError, match="has no provider"):
        session.request([])


@each_way
def test_the_tokens_of_a_turn_are_those_of_its_text(engine: Engine, way: tuple[str, str]) -> None:
    session = session_of(engine, way, pass_through=0.0)
    turn = session.turn(REQUEST)
    assert turn.shown is not None
    assert turn.shown.tokens == turn.shown.head_tokens + turn.shown.message_tokens
    count = bundled_counter().count
    listed = [canonical_json(tool) for tool in session.tools if not tool.get("defer_loading")]
    appended = [canonical_json(message) for message in turn.append]
    head = count(session.system) + sum(map(count, listed))
    assert turn.shown.head_tokens == pytest.approx(head, rel=0.05)
    assert turn.shown.message_tokens >= sum(map(count, appended))
    before = turn.shown.tokens
    assert session.turn(REQUEST).shown.tokens == before


@pytest.mark.parametrize(
    ("settings", "is_whole"),
    [
        ({}, True),
        ({"pass_through": 0.0}, False),
        ({"context_tokens": 50_000}, False),
        ({"context_tokens": 50_000, "pass_through": 0.5}, True),
        ({"context_tokens": 50_000, "allowed": ["mail/*"]}, True),
    ],
)
def test_the_share_of_the_context_decides_whether_all_is_shown(
    engine: Engine, settings: dict[str, Any], is_whole: bool
) -> None:
    session = engine.session("openai", **settings)
    session.turn(REQUEST)
    assert (len(session.tools) >= len(session.view().tools())) is is_whole


def test_the_next_session_over_a_catalog_does_not_go_through_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"pass_through": 0.0, "allowed": ["mail/*", "music/*"]}
    first = engine.session("openai", **settings).turn(REQUEST)

    def walk(catalog: Catalog) -> None:
        raise AssertionError("the catalog is gone through once more")

    monkeypatch.setattr(Catalog, "__iter__", walk)
    assert engine.session("openai", **settings).turn(REQUEST).append == first.append
