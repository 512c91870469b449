"""docs/loop.md, run with the providers' own packages against a server that checks each request."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, get_args

import pytest
import uvicorn

import shortlist
from shortlist import Gate, Rule, State, Tool
from shortlist.demo import load_catalog
from shortlist.gating import Provides, after, milestone, not_, requires_scope
from shortlist.gating.verdict import Status
from shortlist.loaders.providers import provider_name
from shortlist.tests.providers.checking_server import CheckingServer, Conversation
from shortlist.tests.providers.definition_rules import Rules
from shortlist.tests.providers.scripted_replies import Call, Reply, ToolSearch

_PAGE = Path(shortlist.__file__).parent / "docs" / "loop.md"
_NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "string"}},
    "required": ["number"],
    "additionalProperties": False,
}
SEVEN = {"arguments": {"number": "7"}}
_BILLING = ("list_invoices", "get_invoice", "approve", "pay", "delete_invoice", "remind")
TOOLS = [
    *load_catalog(),
    *(Tool(name, "billing", f"{name} of a customer's invoice", _NUMBER) for name in _BILLING),
]
GATE = Gate(
    [
        Rule(milestone("approved"), tools="billing/pay"),
        Rule(not_(after("billing/pay")), tools="billing/pay"),
        Rule(tools="billing/approve", provides=Provides(milestones=("approved",))),
        Rule(requires_scope("delete"), tools="billing/delete_*"),
    ]
)
#: Place of the loop on the page, and the way: each once, and the items of a search too. All ways of
#: all providers are tested in `tests/session/test_provider_loops.py`.
LOOPS = [(0, "call_tool"), (1, "append"), (1, "search"), (2, "search"), (2, "list")]


def blocks() -> list[str]:
    text = _PAGE.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def lines_of_code(block: str) -> int:
    return sum(bool(line.strip()) for line in block.splitlines())


def code_of_loop(place: int, way: str) -> str:
    """The code of a loop as the page says to write it for a way."""
    code = re.sub(r'session\("(\w+)"', rf'session("\1", tools="{way}"', blocks()[place])
    if way == "append":
        code = code.replace("client.messages.create", "client.beta.messages.create")
    return code


def calling(tool_id: str, arguments: Any, way: str) -> Call:
    """A call as a model writes it that reads of the tool in this way."""
    if way == "list":
        return Call(provider_name(tool_id), arguments)
    return Call("call_tool", {"name": tool_id, "arguments": arguments})


def answers(conversation: Conversation) -> list[Any]:
    """The answers to calls of the model in the last request, in order."""
    request = conversation.requests[-1].body
    by_call: dict[str, Any] = {}
    for message in request.get("messages", request.get("input", ())):
        blocks = message.get("content") if isinstance(message.get("content"), list) else []
        for answer in (message, *blocks):
            call_id = answer.get("tool_call_id") or answer.get("tool_use_id")
            if str(answer.get("type")).endswith("_output"):
                call_id = answer["call_id"]
            if call_id is not None:
                by_call[call_id] = answer.get("content", answer.get("output", answer.get("tools")))
    # Without the searches that the session made itself.
    return [answer for call, answer in by_call.items() if not call.startswith("call_shortlist")]


def meaning(answer: Any) -> Any:
    """The status of a call that was not made, or the answer."""
    try:
        value = json.loads(answer)
    except (TypeError, ValueError):
        return answer
    return value.get("status") or value["error"] if isinstance(value, dict) else answer


@pytest.fixture
def conversation(
    checking_server: CheckingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Conversation]:
    """The providers' services, where the packages look for them."""
    # In the way `list`, this model also calls tools that it does not have.
    served = checking_server.conversation(Rules(unavailable_calls=True))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", served.url)
    monkeypatch.setenv("OPENAI_BASE_URL", served.openai_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    yield served
    assert served.refusals == []


def test_the_loops_and_the_web_service_have_at_most_15_lines_of_a_users_code() -> None:
    *loops, _append, _search, _approve, _wait, _resume, service, _check, _test = blocks()
    assert [lines_of_code(loop) for loop in loops] == [15, 15, 15]
    assert lines_of_code(service) == 15


def seven(tool: str, number: Any = "7") -> tuple[str, Any]:
    return f"billing/{tool}", number if isinstance(number, dict) else {"number": number}


@pytest.mark.parametrize(("place", "way"), LOOPS)
def test_an_agent_over_ten_turns(
    place: int, way: str, conversation: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    """Gates, parallel calls, wrong and cut arguments, a failing tool, searches, and a resume."""
    ran: list[tuple[str, Any]] = []
    together = Barrier(2, timeout=60)

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        if tool.name == "get_invoice":
            together.wait()
        ran.append((tool.name, arguments.get("number")))
        if tool.name == "remind":
            raise ConnectionError("smtp://user:secret@mail is down")
        return f"{tool.name} is done"

    names: dict[str, Any] = {
        "tools": TOOLS,
        "gate": GATE,
        "state": State(scopes={"delete"}),
        "run": run,
    }
    exec(compile(code_of_loop(place, way), "loop.md", "exec"), names)

    def ask(request: str, *script: list[Any]) -> list[Any]:
        """The statuses, or texts, of the answers to the calls of one turn."""
        steps = [
            [call if isinstance(call, Call | ToolSearch) else calling(*call, way) for call in step]
            for step in script
        ]
        conversation.script(*(Reply("", step) for step in steps), f"{request}: done.")
        text = names["answer"](names["session"], names["messages"], request)
        assert text == f"{request}: done."
        count = sum(map(len, steps))
        return [meaning(answer) for answer in answers(conversation)[-count:]] if count else []

    assert ask("1 list the invoices of acme", [seven("list_invoices")]) == ["list_invoices is done"]
    both = [seven("get_invoice"), seven("get_invoice", "8")]
    assert ask("2 show the invoices 7 and 8", both) == ["get_invoice is done"] * 2
    assert ask("3 pay invoice 7", [seven("pay")], [seven("approve"), seven("pay")]) == [
        "denied",
        "approve is done",
        "pay is done",
    ]
    assert ask("4 pay invoice 7 again", [seven("pay"), seven("pay")]) == ["denied", "denied"]
    assert ask("5 remind the customer of invoice 7", [seven("remind")]) == ["tool_failed"]
    wrong = [("billing/list_invoices", '{"number": "7'), seven("list_invoices", {})]
    assert ask("6 list the invoices", wrong, [seven("list_invoices")]) == [
        "invalid",
        "invalid",
        "list_invoices is done",
    ]
    # Another process, in which the user may not delete any more.
    stored = json.loads(json.dumps([names["session"].save(), names["messages"]]))
    resumed = names["engine"].resume(stored[0], state=State())
    names |= {"session": resumed, "messages": stored[1]}
    assert ask("7 delete invoice 8", [seven("delete_invoice", "8")]) == ["denied"]
    assert ask("8 thanks") == []
    # The model asks for a tool, and calls what was found; a search may be wrong.
    is_item = place == 1 and way == "search"
    found, empty = (
        ToolSearch({"query": query}) if is_item else Call("search_tools", {"query": query})
        for query in ("post a message in slack", "")
    )
    assert ask("9 say that it is paid", [found, empty])[1:] == ([[]] if is_item else ["invalid"])
    post = ("slack/post_message", {"channel_id": "C0123456789", "text": "paid"})
    assert ask("10 now post it", [post]) == ["post_message is done"]
    names["client"].close()
    assert [name for name, _ in ran] == [
        "list_invoices",
        "get_invoice",
        "get_invoice",
        "approve",
        "pay",
        "remind",
        "list_invoices",
        "post_message",
    ]
    assert "secret" in caplog.text
    assert "secret" not in str([request.raw for request in conversation.requests])
    if way != "list":
        assert conversation.prefix_breaks() == []


def test_a_web_service_keeps_a_session_for_each_user(conversation: Conversation) -> None:
    loop, *_, service, _check, _test = blocks()
    scopes = {"ann": {"delete"}, "bob": set[str]()}
    names: dict[str, Any] = {
        "tools": TOOLS,
        "gate": GATE,
        "state": State(),
        "run": lambda tool, _: f"{tool.name} is done",
        "store": {},
        "scopes_of": scopes.__getitem__,
    }
    exec(compile(f"{loop}\n{service}", "loop.md", "exec"), names)
    config = uvicorn.Config(names["app"], port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]

    def ask(user: str, text: str, *script: Reply) -> str:
        conversation.script(*script, "Done.")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", f"/{user}", json.dumps({"text": text}))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer == {"text": "Done."}
        # What is stored is JSON.
        names["store"] = json.loads(json.dumps(names["store"]))
        return answers(conversation)[-1]

    delete = Reply("", [calling(*seven("delete_invoice", "8"), "call_tool")])
    assert ask("ann", "delete invoice 8", delete) == "delete_invoice is done"
    assert json.loads(ask("bob", "delete invoice 8", delete))["status"] == "denied"
    scopes["ann"] = set()
    assert json.loads(ask("ann", "delete invoice 8", delete))["status"] == "denied"
    first = [
        m["content"] for m in conversation.requests[-1].body["messages"] if m["role"] == "user"
    ]
    assert first == ["delete invoice 8", "delete invoice 8"]
    server.should_exit = True
    thread.join(60)
    names["client"].close()


def test_an_approval_that_waits_in_a_store() -> None:
    gate = Gate([Rule(tools="billing/pay", approval=True)])
    engine = shortlist.Engine.from_tools(TOOLS, gate=gate, tiers=["lexical"])
    names: dict[str, Any] = {
        "Any": Any,
        "Session": shortlist.Session,
        "engine": engine,
        "state": State(),
        "run": lambda tool, _: f"{tool.name} is done",
        "store": {},
    }
    exec(compile(blocks()[6], "loop.md", "exec"), names)
    session = engine.session("openai", must_offer=False)
    messages = [*session.turn("pay the invoice 7").messages]
    function = {"name": "call_tool", "arguments": json.dumps({"name": "billing/pay", **SEVEN})}
    reply = {"role": "assistant", "tool_calls": [{"id": "call_1", "function": function}]}
    assert names["step"](session, messages, reply) is False
    names["store"] = json.loads(json.dumps(names["store"]))
    saved = names["store"]["ann"]
    assert [call["tool"] for call in saved["pending"]["waiting"]] == ["billing/pay"]
    assert names["decided"]({}) is False
    assert names["decided"]({"call_1": True}) is True
    assert "pay is done" in json.dumps(saved["messages"])
    assert saved["session"]["pending"] is None


def test_the_steps_without_handle() -> None:
    check = blocks()[-2]
    session = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"]).session(must_offer=False)
    names: dict[str, Any] = {"session": session, "run": lambda tool, arguments: "two entries"}
    exec(compile(check, "loop.md", "exec"), names)
    assert names["content"] == "two entries"
    assert session.state.called == ("web/read_feed",)


def test_the_test_without_a_model() -> None:
    engine = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"])
    names: dict[str, Any] = {"engine": engine, "run": lambda *_: "two entries", "Any": Any}
    exec(compile(blocks()[-1], "loop.md", "exec"), names)
    names["test_the_feed_is_read"]()
    # The form that the page names for Anthropic.
    session = engine.session("anthropic")
    session.turn("what is new in the feed?")
    given = {"name": "web/read_feed", "arguments": {"url": "https://example.org"}}
    call = {"type": "tool_use", "id": "call_1", "name": "call_tool", "input": given}
    session.handle({"role": "assistant", "content": [call]}, names["run"])
    assert session.state.called == ("web/read_feed",)


def test_every_status_is_on_the_page() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    statuses = text[text.index("\n## Verdicts") :]
    assert re.findall(r"^\| `(\w+)` \|", statuses, re.MULTILINE) == list(get_args(Status))


def test_the_answer_to_a_search_without_handle() -> None:
    session = shortlist.Engine.from_tools(TOOLS, tiers=["lexical"]).session(
        "openai_responses", tools="search", pass_through=0
    )
    session.turn("pay invoice 7")
    names: dict[str, Any] = {"session": session, "messages": []}
    exec(compile(blocks()[4], "loop.md", "exec"), names)
    assert names["messages"][0]["call_id"] == "call_1"
    assert "slack__" in json.dumps(names["messages"])
