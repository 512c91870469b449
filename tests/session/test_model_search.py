"""A search that the model asks for: its answer, what it may find, and what stays the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shortlist import Engine, Gate, Rule, Tool
from shortlist.errors import RequestError
from shortlist.gating import after
from shortlist.loaders.providers import PROVIDERS

WAYS = [
    (name, way)
    for name, provider in PROVIDERS.items()
    for way in provider.ways
    if provider.has_list
]
APPENDING = [way for way in WAYS if way[1] != "list"]
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


def search_reply(way: tuple[str, str], query: Any, call_id: str) -> dict[str, Any]:
    """A reply of the provider in which the model searches."""
    arguments = {"query": query}
    if way == ("openai_responses", "search"):
        call = {"type": "tool_search_call", "id": "ts_1", "call_id": call_id, "execution": "client"}
        return {"output": [{**call, "status": "completed", "arguments": arguments}]}
    if way[0] == "openai_responses":
        call = {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "search_tools"}
        return {"output": [{**call, "arguments": json.dumps(arguments)}]}
    if way[0] == "openai":
        function = {"name": "search_tools", "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    block = {"type": "tool_use", "id": call_id, "name": "search_tools", "input": arguments}
    return {"role": "assistant", "content": [block]}


@pytest.mark.parametrize("way", WAYS)
def test_that_nothing_fits_and_what_is_wrong_with_a_query_is_said(engine: Engine, way: Any) -> None:
    session = engine.session(way[0], tools=way[1], allowed=["mail/*"], pass_through=0)
    session.turn("send a mail")
    _, *messages = session.handle(search_reply(way, "qwertz", "c1"), {})
    assert "No tool fits." in json.dumps(messages)
    for wrong in ("  ", 7):
        _, *messages = session.handle(search_reply(way, wrong, "c2"), {})
        answer = json.dumps(messages)
        assert "invalid" in answer
        assert "query" in answer
    with pytest.raises(RequestError, match="query: is empty"):
        session.search(" ")


def test_a_search_that_no_tool_seems_to_fit_names_the_nearest_permitted_ones() -> None:
    strict = {"lexical": {"threshold": 1000.0}}
    engine = Engine.from_tools(TOOLS, gate=GATE, tiers=strict, default_tier="lexical")
    session = engine.session("openai", allowed=["mail/*"], pass_through=0)
    assert session.turn("a word about the mail").hits == ()
    _, message = session.handle(search_reply(("openai", "call_tool"), "burn the mail", "c1"), {})
    head, *lines, last = message["content"].splitlines()
    assert head == "No tool seems to fit. Nearest:"
    # `mail/delete_mail` is denied until a mail was read, and other servers are not allowed.
    assert sorted(line.split(": ")[0] for line in lines) == ["mail/read_mail", "mail/send_mail"]
    assert last.startswith("To use one, search for its name.")


def test_a_search_waits_for_the_calls_before_it_in_the_reply(engine: Engine) -> None:
    session = engine.session("anthropic", tools="search", allowed=["mail/*"], pass_through=0)
    session.turn("read an electronic mail")
    call = {"type": "tool_use", "id": "c1", "name": "mail__read_mail", "input": {"text": "1"}}
    (search,) = search_reply(("anthropic", "search"), "delete an electronic mail", "c2")["content"]
    reply = {"role": "assistant", "content": [call, search]}
    messages = session.handle(reply, {"read_mail": lambda text: "read"})
    read, found = messages[1]["content"]
    assert (read["tool_use_id"], read["content"]) == ("c1", "read")
    assert "mail__delete_mail" in json.dumps(found["content"])


@pytest.mark.parametrize("way", APPENDING)
def test_a_tool_with_the_name_of_the_search_is_refused(way: Any) -> None:
    caller = Tool("call_tool", None, "Call a tool of the workshop")
    with pytest.raises(RequestError, match="the id 'call_tool'"):
        Engine.from_tools([*TOOLS, caller], tiers=["lexical"]).session(way[0], tools=way[1])
    own = Tool("search_tools", None, "Search the tools of the workshop")
    of_a_server = Tool("search_tools", "workshop", "Search the tools of the workshop")
    with pytest.raises(RequestError, match="give the tool a server or another name"):
        Engine.from_tools([*TOOLS, own], tiers=["lexical"]).session(way[0], tools=way[1])
    engine = Engine.from_tools([*TOOLS, of_a_server], tiers=["lexical"])
    session = engine.session(way[0], tools=way[1])
    session.turn("search the tools of the workshop")
    assert session._read_search("search_tools", {"query": "send a mail"}) == "send a mail"
    assert session.check("workshop__search_tools", {}).called_name == "workshop/search_tools"
    engine.replace([*TOOLS, own])
    with pytest.raises(RequestError, match="the id 'search_tools'"):
        session.turn("send a mail")


def test_a_list_of_the_whole_catalog_has_no_search_of_its_own() -> None:
    own = Tool("send_mail", None, "Send an electronic mail")
    session = Engine.from_tools([own], tiers=["lexical"]).session("openai", tools="list")
    session.turn("send a mail")
    assert [tool["function"]["name"] for tool in session.tools] == ["send_mail"]
