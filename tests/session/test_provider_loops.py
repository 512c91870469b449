"""Conversations with the real SDKs: each request is documented, and only grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from shortlist import Engine, Session, State, Tool
from shortlist.codemode.grants import Approval, ApprovalRequest
from shortlist.errors import RequestError
from shortlist.gating import Gate, Rule, after, argument, not_, requires_scope
from shortlist.loaders.providers import PROVIDERS
from shortlist.tests.providers.checking_server import Conversation
from shortlist.tests.providers.scripted_replies import Call, Reply, ToolSearch

Json = dict[str, Any]
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "note": {"type": "string"}},
    "required": ["id"],
}
SERVERS = ("mail", "files", "billing", "calendar", "music", "travel", "wiki", "shop")
VERBS = ("list", "read", "create", "delete", "share", "search", "archive", "export")
THINGS = ("message", "report")
WAYS = [(name, way) for name, provider in PROVIDERS.items() for way in provider.ways]
LOOPS = [pair for pair in WAYS if pair[0] != "text"]
ONLY_GROWING = [pair for pair in LOOPS if pair[1] != "list"]


def tools_of(*servers: str, note: str = "") -> list[Tool]:
    return [
        Tool(f"{verb}_{thing}", server, f"{verb.capitalize()} a {thing} of {server}{note}", SCHEMA)
        for server in servers
        for thing in THINGS
        for verb in VERBS
    ]


WITHOUT_REPORTS_OF_MUSIC = [
    *(f"{server}/*" for server in SERVERS if server != "music"),
    "music/*_message",
]
RULES = Gate(
    [
        Rule(requires_scope("delete"), tools="*/delete_*"),
        Rule(after("billing/list_report"), tools="billing/share_report"),
        Rule(not_(after("shop/create_report")), tools="shop/create_report"),
    ]
)


def make_engine() -> Engine:
    return Engine.from_tools(tools_of(*SERVERS[:6]), gate=RULES, tiers=["lexical"])


@pytest.fixture
def ask(provider: Conversation) -> Iterator[Callable[..., object]]:
    """Sends a request of a session with the provider's own package and returns its reply."""
    plain = {"api_key": "x", "max_retries": 0}
    clients = (
        anthropic.Anthropic(base_url=provider.url, **plain),
        openai.OpenAI(base_url=provider.openai_url, **plain),
    )

    def send(session: Session, messages: list[Json], *, stream: bool = False) -> object:
        request = session.request(messages)
        if session.provider == "anthropic":
            arguments = {"model": "claude-opus-5-5", "max_tokens": 100, **request}
            if not stream:
                return clients[0].beta.messages.create(**arguments)
            with clients[0].beta.messages.stream(**arguments) as events:
                return events.get_final_message()
        if session.provider == "openai":
            return clients[1].chat.completions.create(model="gpt-5.4", **request)
        return clients[1].responses.create(model="gpt-5.4", **request)

    yield send
    for client in clients:
        client.close()


def call_of(session: Session, tool_id: str, **arguments: Any) -> Call:
    """A call as a model that follows what it has read would write it."""
    assert session._provider is not None
    name = session._provider.name_of(tool_id)
    listed = {str(tool.get("name", tool.get("function", {}).get("name"))) for tool in session.tools}
    is_native = name in listed and (session.way != "search" or not session.tools[-1].get("x"))
    if session.way == "list" or (is_native and session.way == "call_tool"):
        return Call(name, arguments)
    return Call("call_tool", {"name": tool_id, "arguments": arguments})


def run(tool: Tool, arguments: Json) -> str:
    return f"{tool.id} did it for {arguments['id']}"


def converse(
    session: Session,
    messages: list[Json],
    request: str,
    replies: list[Reply],
    provider: Conversation,
    ask: Callable[..., object],
    *,
    stream: bool = False,
) -> None:
    """One turn of the documented loop."""
    messages += session.turn(request).messages
    for reply in [*replies, Reply("Done.")]:
        provider.script(reply)
        received = ask(session, messages, stream=stream)
        answers = session.handle(received, run)
        messages += answers
        if not answers:
            messages.append({"role": "assistant", "content": "Done."})


def search_call(session: Session, query: str) -> Call | ToolSearch:
    if session.provider == "openai_responses" and session.way == "search":
        return ToolSearch({"query": query})
    return Call("search_tools", {"query": query})


@pytest.mark.parametrize(("name", "way"), LOOPS)
def test_a_long_conversation_with_changes(
    name: str, way: str, provider: Conversation, ask: Callable[..., object]
) -> None:
    engine = make_engine()
    # Every second way has a pool that counts the tools of most servers.
    is_counting = LOOPS.index((name, way)) % 2 == 1
    settings: Json = {"pass_through": 0.0} | ({"pool_tokens": 900} if is_counting else {})
    session = engine.session(name, tools=way, state=State(), **settings)
    messages: list[Json] = []
    appended = 0
    for number in range(18):
        server, verb = SERVERS[number % 6], VERBS[number % 8]
        thing = THINGS[number % 2]
        if number == 3:
            session.state = session.state.granted("delete")
        elif number == 6:
            session.allowed = WITHOUT_REPORTS_OF_MUSIC
        elif number == 9:
            session.allowed = None
            engine.replace_server(
                "files", [*tools_of("files", note=", newly described")[:4], *tools_of("files")[4:]]
            )
        elif number == 12:
            engine.quarantine({"travel/read_message": "under review"})
        elif number == 14:
            saved = json.loads(json.dumps({"session": session.save(), "messages": messages}))
            session = engine.resume(saved["session"], state=State(scopes={"delete"}))
            messages = saved["messages"]
        before = len(messages)
        tool_id = f"{server}/{verb}_{thing}"
        replies = []
        if number % 3 == 0:
            replies.append(Reply(calls=[search_call(session, f"{verb} a {thing} of {server}")]))
        session_call = Call("call_tool", {"name": tool_id, "arguments": {"id": str(number)}})
        if way != "list":
            replies.append(Reply("I call it.", [session_call]))
        converse(
            session,
            messages,
            f"please {verb} the {thing} of {server}, number {number}",
            replies,
            provider,
            ask,
            stream=number % 7 == 0,
        )
        appended += len(json.dumps(messages[before:]))
    assert provider.refusals == []
    assert len(json.dumps(messages)) <= appended + 2 * len(messages)
    if way != "list":
        # Only the quarantine of number 12 may change what was sent; with references, also the
        # definition that was changed before the session was resumed.
        is_referenced = (name, way) == ("anthropic", "search")
        assert len(provider.prefix_breaks()) <= (2 if is_referenced else 1)


@pytest.mark.parametrize(("name", "way"), ONLY_GROWING)
def test_requests_only_grow(
    name: str, way: str, provider: Conversation, ask: Callable[..., object]
) -> None:
    """Permissions change, tools vanish and change: each request begins with the one before."""
    engine = make_engine()
    session = engine.session(name, tools=way, pass_through=0)
    messages: list[Json] = []
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: setattr(session, "state", session.state.granted("delete")),
        lambda: setattr(session, "allowed", WITHOUT_REPORTS_OF_MUSIC),
        lambda: engine.replace_server("mail", tools_of("mail")[2:]),
        lambda: engine.replace_server("wiki", tools_of("wiki")[:4]),
        lambda: engine.replace_server(
            "files",
            [
                *tools_of("files")[:9],
                Tool("read_report", "files", "Reads it anew", SCHEMA),
                *tools_of("files")[10:],
            ],
        ),
        lambda: setattr(session, "allowed", None),
    ]
    for number, step in enumerate([*steps, steps[0], steps[0]]):
        step()
        tool_id = f"files/{VERBS[number % 8]}_report"
        call = Call("call_tool", {"name": tool_id, "arguments": {"id": "7"}})
        converse(
            session,
            messages,
            f"{VERBS[number % 8]} a report of files",
            [Reply("", [call])],
            provider,
            ask,
        )
    assert provider.refusals == []
    assert provider.prefix_breaks() == []


@pytest.mark.parametrize(("name", "way"), LOOPS)
def test_parallel_calls_are_all_answered_and_unlock(
    name: str, way: str, provider: Conversation, ask: Callable[..., object]
) -> None:
    session = make_engine().session(name, tools=way, pass_through=0)
    messages: list[Json] = []
    if way == "list":
        share = Call("search_tools", {"query": "share a report of billing"})
    else:
        share = Call("call_tool", {"name": "billing/share_report", "arguments": {"id": "1"}})
    wrong = Call("search_tools", {"question": 1})
    calls = [share] if name == "openai_responses" and way == "search" else [share, wrong]
    calls = [
        c for c in calls if not (way == "search" and name == "openai_responses" and c is wrong)
    ]
    converse(session, messages, "share the report of billing", [Reply("", calls)], provider, ask)
    assert provider.refusals == []


@pytest.mark.parametrize(("name", "way"), LOOPS)
def test_what_a_search_found_is_loaded_lined_or_named(name: str, way: str) -> None:
    long = {"type": "string", "description": "What it is about. " * 40}
    schema = {"type": "object", "properties": {"id": long, "to": long}, "required": ["id"]}
    tools = [
        Tool(
            f"create_{thing}", "github", f"Create a {thing}, pull request of the repository", schema
        )
        for thing in ("pull_request", "pull_review", "pull_comment", "pull_label", "pull_branch")
    ]
    engine = Engine.from_tools([*tools_of(*SERVERS), *tools], tiers=["lexical"])
    session = engine.session(name, tools=way, pool_tokens=500, pass_through=0)
    session.turn("hello, what is in the wiki?")
    turn = session.search("create a pull request", "call_1")
    text = json.dumps([turn.append, session.tools if way == "list" else []])
    for tool_id in turn.ids:
        tool_name = tool_id.partition("/")[2]
        assert tool_name in text, tool_id
    assert len(turn.ids) == 5


APPROVALS = Gate(
    [
        Rule(tools="*/delete_*", approval=True),
        Rule(tools="*/share_*", when=argument("id", above=0), approval=True),
        Rule(requires_scope("export"), tools="*/export_*"),
        Rule(tools="*/export_*", approval=True),
    ]
)


@pytest.mark.parametrize(("name", "way"), LOOPS)
def test_nothing_is_sent_until_a_person_has_decided_about_every_call(
    name: str, way: str, provider: Conversation, ask: Callable[..., object]
) -> None:
    """Parallel calls: one runs, one is approved at once, three wait, in another process."""
    tools = tools_of(*SERVERS[:3])
    # With the whole catalog in the list, every way calls tools by their own names.
    whole: Json = {"pass_through": 1.0} if way == "list" else {}
    session = Engine.from_tools(tools, gate=APPROVALS, tiers=["lexical"]).session(
        name, tools=way, state=State(scopes={"export"}), must_offer=False, **whole
    )
    ran: list[str] = []

    def run(tool: Tool, arguments: Json) -> str:
        ran.append(tool.id)
        return f"{tool.id} did it"

    messages = [*session.turn("tidy up the mail").messages]
    ids = ("mail/read_message", "mail/delete_report", "mail/delete_message", "files/share_report")
    calls = [call_of(session, tool_id, id="1") for tool_id in (*ids, "billing/export_report")]
    provider.script(Reply("Five calls.", [*calls]))

    def approve(request: ApprovalRequest) -> Approval:
        return True if request.tool.id == "mail/delete_report" else "later"

    assert session.handle(ask(session, messages), run, approve=approve) == []
    pending = session.pending
    assert pending is not None
    assert sorted(ran) == ["mail/delete_report", "mail/read_message"]
    assert [call["tool"] for call in pending.waiting] == [*ids[2:], "billing/export_report"]
    with pytest.raises(RequestError, match="waits for a person's decision"):
        session.request(messages)
    stored = json.loads(json.dumps({"session": session.save(), "pending": pending}))

    engine = Engine.from_tools(tools, gate=APPROVALS, tiers=["lexical"])
    # The scope is gone. With `list`, the call of a tool that left the list would be refused.
    scopes = {"export"} if way == "list" else set[str]()
    resumed = engine.resume(stored["session"], state=State(scopes=scopes))
    keys = [call["id"] for call in stored["pending"]["waiting"]]
    assert resumed.finish(stored["pending"], {keys[0]: True}, run) == []
    still = resumed.pending
    assert still is not None
    answers = resumed.finish(still, {keys[1]: False, keys[2]: True}, run)
    assert isinstance(answers, list)
    assert ran[2:] == ["mail/delete_message", *["billing/export_report"] * (way == "list")]
    messages += answers
    text = json.dumps(answers)
    assert "did not approve this call" in text
    assert ("needs the scope 'export'" in text) == (way != "list")
    provider.script("Done.")
    assert resumed.handle(ask(resumed, messages), run) == []
    assert provider.refusals == []
    if way != "list":
        assert provider.prefix_breaks() == []
