"""A search that the model asks for: its answer, what it may find, and what stays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shortlist import Engine, Gate, Rule, Session, State, Tool
from shortlist.errors import RequestError
from shortlist.gating import after
from shortlist.loaders.render import FORMATS, renderer_for

SEARCHING = [name for name in FORMATS if name.endswith(("_call_tool", "_search"))]
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_SUBJECTS = ("invoice", "album", "forecast", "ticket", "recipe", "flight", "branch", "contract")
_VERBS = ("list", "create", "delete", "archive", "rename", "export", "share", "approve", "print")
TOOLS = [
    Tool(f"{verb}_{subject}", f"{subject}s{number}", f"{verb} one {subject} of {number}", _TEXT)
    for subject in _SUBJECTS
    for verb in _VERBS
    for number in range(1, 12)
] + [
    Tool("send_mail", "mail", "Send an electronic mail to a person", _TEXT),
    Tool("delete_mail", "mail", "Delete an electronic mail for ever", _TEXT),
    Tool("read_mail", "mail", "Read an electronic mail of a person", _TEXT),
    Tool("forward_mail", "spam", "Forward an electronic mail to a stranger", _TEXT),
    Tool("burn_mail", "fire", "Burn an electronic mail of a person", _TEXT),
    Tool("a_tool_without_server", None, "Water the plants of the balcony", _TEXT),
]
GATE = Gate([Rule(after("mail/read_mail"), tools="mail/delete_mail")])


@pytest.fixture
def engine() -> Engine:
    engine = Engine.from_tools(TOOLS, gate=GATE, tiers=["lexical"])
    engine.quarantine({"fire/burn_mail": "under review"})
    return engine


def allowed() -> list[str]:
    return [f"{tool.server}/*" for tool in TOOLS if tool.server not in (None, "spam")] + [
        "a_tool_without_server"
    ]


def search_reply(style: str, query: Any, call_id: str) -> dict[str, Any]:
    """A reply of the provider in which the model searches."""
    arguments = {"query": query}
    if style == "openai_responses_search":
        call = {"type": "tool_search_call", "id": "ts_1", "call_id": call_id, "execution": "client"}
        return {"output": [{**call, "status": "completed", "arguments": arguments}]}
    if style.startswith("openai_responses"):
        call = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "search_tools"}
        return {"output": [{**call, "arguments": json.dumps(arguments)}]}
    if style.startswith("openai"):
        function = {"name": "search_tools", "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    block = {"type": "tool_use", "id": call_id, "name": "search_tools", "input": arguments}
    return {"role": "assistant", "content": [block]}


def list_of_tools(session: Session) -> bytes:
    return json.dumps(session.request([])["tools"]).encode()


@pytest.mark.parametrize("style", SEARCHING)
def test_the_list_of_tools_keeps_its_bytes_over_twenty_turns(engine: Engine, style: str) -> None:
    session = engine.session(format=style, allowed=allowed())
    session.turn("list the invoices")
    assert len(TOOLS) > 790
    first = list_of_tools(session)
    for number in range(20):
        session.turn(f"{_VERBS[number % 9]} the {_SUBJECTS[number % 8]} of {number}")
        session.handle(search_reply(style, f"archive {_SUBJECTS[number % 7]}", f"c{number}"), {})
        if number == 9:
            # A call that unlocks a tool, and a session that goes on in another process.
            session.search("read an electronic mail")
            verdict = session.check("mail/read_mail", {"text": "1"})
            session.result(verdict, "read")
            saved = json.loads(json.dumps(session.save()))
            session = engine.resume(saved, state=State())
        assert list_of_tools(session) == first
    assert "mail/delete_mail" in session.search("delete an electronic mail for ever").ids
    assert list_of_tools(session) == first
    for hidden in ("burn_mail", "forward_mail"):
        assert hidden.encode() not in first
    assert (b"delete_mail" in first) == (style == "anthropic_search")


@pytest.mark.parametrize("style", SEARCHING)
def test_only_what_is_permitted_now_is_found_and_it_counts_as_offered(
    engine: Engine, style: str
) -> None:
    session = engine.session(format=style, allowed=allowed())
    turn = session.turn("list the albums")
    _, *messages = session.handle(search_reply(style, "an electronic mail of a person", "c1"), {})
    text = json.dumps(messages)
    assert "send_mail" in text
    assert "read_mail" in text
    for hidden in ("delete_mail", "burn_mail", "forward_mail"):
        assert hidden not in text
    assert session.check("mail/send_mail", {"text": "hello"}).passed
    assert session.level("albums1/list_album") or turn.ids

    _, *messages = session.handle(search_reply(style, "an electronic mail of a person", "c2"), {})
    text = json.dumps(messages)
    assert "You already have: " in text
    assert "Send an electronic mail" not in text

    verdict = session.check("mail/read_mail", {"text": "1"})
    session.result(verdict, "read")
    _, *messages = session.handle(search_reply(style, "delete an electronic mail", "c3"), {})
    assert "delete_mail" in json.dumps(messages)


@pytest.mark.parametrize("style", SEARCHING)
def test_that_nothing_fits_and_what_is_wrong_with_a_query_is_said(
    engine: Engine, style: str
) -> None:
    session = engine.session(format=style, allowed=["mail/*"], pass_through=0)
    session.turn("send a mail")
    _, *messages = session.handle(search_reply(style, "qwertz", "c1"), {})
    assert "No tool fits." in json.dumps(messages)
    for wrong in ("  ", 7):
        _, *messages = session.handle(search_reply(style, wrong, "c2"), {})
        answer = json.dumps(messages)
        assert "invalid" in answer
        assert "query" in answer
    with pytest.raises(RequestError, match="query: is empty"):
        session.search(" ")


@pytest.mark.parametrize("style", FORMATS)
def test_a_search_is_answered_in_the_form_of_its_provider(engine: Engine, style: str) -> None:
    session = engine.session(format=style, allowed=allowed())
    session.turn("list the albums")
    turn = session.search("water the plants", "call_7")
    assert turn.ids[0] == "a_tool_without_server"
    first = turn.append[0]
    provider = renderer_for(style).reply_providers[0]
    if style == "openai_responses_search":
        assert first["type"] == "tool_search_output"
        assert first["call_id"] == "call_7"
        assert first["execution"] == "client"
        assert "a_tool_without_server" in [tool["name"] for tool in first["tools"]]
        grouped = [tool for tool in first["tools"] if tool["type"] == "namespace"]
        for namespace in grouped:
            assert all(t["name"].startswith(namespace["name"]) for t in namespace["tools"])
    elif provider == "openai_responses":
        assert (first["type"], first["call_id"]) == ("function_call_output", "call_7")
        assert "a_tool_without_server" in first["output"]
    elif provider == "openai":
        assert (first["role"], first["tool_call_id"]) == ("tool", "call_7")
        assert "a_tool_without_server" in first["content"]
    else:
        (block,) = first["content"]
        assert (block["type"], block["tool_use_id"]) == ("tool_result", "call_7")
        if style == "anthropic_search":
            reference = {"type": "tool_reference", "tool_name": "a_tool_without_server"}
            assert block["content"][0] == reference
        else:
            assert "a_tool_without_server" in block["content"]


def test_a_search_waits_for_the_calls_before_it_in_the_reply(engine: Engine) -> None:
    session = engine.session(format="anthropic_search", allowed=["mail/*"], pass_through=0)
    session.turn("read an electronic mail")
    call = {"type": "tool_use", "id": "c1", "name": "mail__read_mail", "input": {"text": "1"}}
    (search,) = search_reply("anthropic_search", "delete an electronic mail", "c2")["content"]
    reply = {"role": "assistant", "content": [call, search]}
    messages = session.handle(reply, {"read_mail": lambda text: "read"})
    read, found = messages[1]["content"]
    assert (read["tool_use_id"], read["content"]) == ("c1", "read")
    assert "mail__delete_mail" in json.dumps(found["content"])


def test_references_to_a_quarantined_tool_are_not_sent_again(engine: Engine) -> None:
    session = engine.session(format="anthropic_search", allowed=["mail/*"], pass_through=0, k=1)
    messages = [*session.turn("read an electronic mail").messages]
    messages += session.search("mail/send_mail", "c1").append
    assert "mail__send_mail" in json.dumps(session.request(messages)["messages"])
    engine.quarantine({"mail/send_mail": "under review"})
    session.refresh()
    request = session.request(messages)
    assert "mail__send_mail" not in json.dumps(request)
    assert "no longer available" in json.dumps(request)


def test_a_tool_in_an_answer_is_not_repeated_until_its_definition_changes(engine: Engine) -> None:
    session = engine.session(format="anthropic_call_tool", pool="summaries", pass_through=0)
    session.turn("list the albums")
    session.search("water the plants")
    again = engine.resume(session.save(), state=State())
    for one in (session, again):
        turn = one.turn("water the plants of the balcony")
        assert "Water the plants" not in json.dumps(turn.append)
        assert one.check("a_tool_without_server", {"text": "x"}).passed
    changed = Tool("a_tool_without_server", None, "Water the plants of the balcony twice", _TEXT)
    engine.replace([tool for tool in TOOLS if tool.server] + [changed])
    turn = session.turn("water the plants of the balcony")
    assert "balcony twice" in json.dumps([turn.append, turn.system])


@pytest.mark.parametrize("style", SEARCHING)
def test_a_tool_with_the_name_of_the_search_is_refused(style: str) -> None:
    caller = Tool("call_tool", None, "Call a tool of the workshop")
    with pytest.raises(RequestError, match="the id 'call_tool'"):
        Engine.from_tools([*TOOLS, caller], tiers=["lexical"]).session(format=style)
    own = Tool("search_tools", None, "Search the tools of the workshop")
    of_a_server = Tool("search_tools", "workshop", "Search the tools of the workshop")
    with pytest.raises(RequestError, match="give the tool a server or another name"):
        Engine.from_tools([*TOOLS, own], tiers=["lexical"]).session(format=style)
    engine = Engine.from_tools([*TOOLS, of_a_server], tiers=["lexical"])
    session = engine.session(format=style)
    session.turn("search the tools of the workshop")
    assert session.read_search("search_tools", {"query": "send a mail"}) == "send a mail"
    assert session.check("workshop__search_tools", {}).called_name == "workshop/search_tools"
    engine.replace([*TOOLS, own])
    with pytest.raises(RequestError, match="the id 'search_tools'"):
        session.turn("send a mail")


def test_formats_without_a_search_take_a_tool_of_that_name() -> None:
    own = Tool("search_tools", None, "Search the tools of the workshop")
    session = Engine.from_tools([*TOOLS, own], tiers=["lexical"]).session(format="openai")
    session.turn("search the tools of the workshop")
    assert session.read_search("search_tools", {"query": "send a mail"}) is None
    assert session.check("search_tools", {}).passed
