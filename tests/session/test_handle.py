"""`Session.handle`: one call that checks, runs and answers the calls of a model's reply."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from threading import Barrier, current_thread
from typing import Any

import pytest
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel

from shortlist import Engine, Gate, Rule, Tool
from shortlist.errors import RequestError, StepLimitError, ToolCallError
from shortlist.gating import Provides, after, milestone, not_, requires_scope
from shortlist.loaders.providers import PROVIDERS, plain_json
from shortlist.session import Recorder

from .replies import FORMS, answers_by_call, anthropic, chat, responses

_NUMBER = {
    "type": "object",
    "properties": {"number": {"type": "string"}},
    "required": ["number"],
    "additionalProperties": False,
}
TOOLS = [
    Tool("list_invoices", "billing", "List the invoices of a customer"),
    Tool("get_invoice", "billing", "Show an invoice", _NUMBER),
    Tool("approve", "billing", "Approve the payment of an invoice", _NUMBER),
    Tool("pay", "billing", "Pay an invoice", _NUMBER),
    Tool("delete_invoice", "billing", "Delete an invoice", _NUMBER),
]
RULES = Gate(
    [
        Rule(milestone("approved"), tools="billing/pay"),
        Rule(not_(after("billing/pay")), tools="billing/pay", name="only once"),
        Rule(tools="billing/approve", provides=Provides(milestones=("approved",))),
        Rule(requires_scope("delete"), tools="billing/delete_*"),
    ]
)
SEVEN = {"number": "7"}


@pytest.fixture
def engine() -> Engine:
    return Engine.from_tools(TOOLS, tiers=["lexical"], gate=RULES)


def done(tool: Tool, arguments: dict[str, Any]) -> str:
    return f"{tool.name} {arguments.get('number', '')}".strip()


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_has_the_form_of_one_provider_alone(form: str) -> None:
    provider, reply_of = FORMS[form]
    for calls, text in ([("billing__get_invoice", SEVEN)], None), ([], "Two."):
        value = plain_json(reply_of(calls, text))
        read = {
            own.read_reply(value).provider for own in PROVIDERS.values() if own.read_reply(value)
        }
        assert read == {provider}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_reply_is_answered_in_its_form(engine: Engine, form: str) -> None:
    style, reply_of = FORMS[form]
    session = engine.session(style)
    messages = [*session.turn("show invoice 7").messages]
    assert messages[0] == {"role": "user", "content": "show invoice 7"}
    reply = reply_of([("billing__get_invoice", SEVEN), ("billing__list_invoices", {})])
    added = session.handle(reply, done)
    assert json.loads(json.dumps(added)) == added
    assert answers_by_call(added) == {"call_0": "get_invoice 7", "call_1": "list_invoices"}
    assert session.state.called == ("billing/get_invoice", "billing/list_invoices")
    messages += added
    request = session.request(messages)
    assert request["input" if style == "openai_responses" else "messages"][-len(added) :] == added
    assert session.handle(reply_of([], "Two."), done) == []
    assert session.save()["messages"][-1]["content"] == "Two."


def test_the_reply_comes_first_in_the_form_that_the_api_takes_back(engine: Engine) -> None:
    calls = [("billing__get_invoice", SEVEN)]
    arguments = json.dumps(SEVEN)
    expected = {
        "chat stream": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "billing__get_invoice", "arguments": arguments},
                }
            ],
        },
        "responses stream": {"type": "reasoning", "id": "rs_1", "summary": []},
        "anthropic stream": {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {
                    "type": "tool_use",
                    "id": "call_0",
                    "name": "billing__get_invoice",
                    "input": SEVEN,
                },
            ],
        },
    }
    for form, first in expected.items():
        style, reply_of = FORMS[form]
        session = engine.session(style)
        session.turn("show invoice 7")
        added = session.handle(reply_of(calls), done)
        assert added[0] == first
    output = FORMS["responses stream"][1](calls)
    assert "parsed_arguments" in json.dumps(output.model_dump(mode="json"), default=str)


def test_what_does_not_pass_is_answered_and_not_run(engine: Engine) -> None:
    session = engine.session("anthropic")
    session.turn("show invoice 7")
    ran: list[str] = []
    calls = [
        ("billing__get_invoice", {}),
        ("billing/delete_invoice", SEVEN),
        ("billing__get_invoices", SEVEN),
        ("billing__get_invoice", SEVEN),
    ]
    added = session.handle(anthropic(calls), lambda tool, _: ran.append(tool.id))
    results = added[1]["content"]
    statuses = [json.loads(result["content"] or "{}") for result in results[:3]]
    assert [status["status"] for status in statuses] == ["invalid", "denied", "unknown"]
    assert [result.get("is_error", False) for result in results] == [True, True, True, False]
    assert ran == ["billing/get_invoice"]


@pytest.mark.parametrize("arguments", ["", '{"number": "7', "[]"])
def test_arguments_that_are_cut_off_are_answered(engine: Engine, arguments: str) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")
    added = session.handle(chat([("billing__get_invoice", arguments)]), done)
    assert json.loads(answers_by_call(added)["call_0"])["status"] == "invalid"


def test_calls_run_at_the_same_time(engine: Engine) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")
    together = Barrier(3, timeout=60)

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        together.wait()
        return str(arguments["number"])

    calls = [("billing__get_invoice", {"number": number}) for number in "789"]
    added = session.handle(chat(calls), run)
    assert list(answers_by_call(added).values()) == ["7", "8", "9"]


def test_one_call_and_calls_that_must_not_be_parallel_run_in_the_callers_thread(
    engine: Engine,
) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")
    threads: list[Any] = []

    def run(tool: Tool, arguments: dict[str, Any]) -> None:
        threads.append(current_thread())

    session.handle(chat([("billing__get_invoice", SEVEN)]), run)
    session.handle(chat([("billing__get_invoice", SEVEN)] * 2), run, parallel=False)
    assert set(threads) == {current_thread()}


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_call_that_a_rule_makes_dependent_sees_the_outcome_before_it(
    engine: Engine, succeeds: bool
) -> None:
    session = engine.session("openai", must_offer=False)
    session.turn("approve and pay invoice 7")
    ran: list[str] = []

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        ran.append(tool.name)
        if not succeeds:
            raise ToolCallError("the approver is away")
        return "done"

    added = session.handle(chat([("billing__approve", SEVEN), ("billing__pay", SEVEN)]), run)
    first, second = answers_by_call(added).values()
    if succeeds:
        assert (ran, first, second) == (["approve", "pay"], "done", "done")
    else:
        assert ran == ["approve"]
        assert json.loads(first)["message"] == "the approver is away"
        assert json.loads(second)["status"] == "denied"


def test_only_once_holds_for_calls_of_one_reply(engine: Engine) -> None:
    session = engine.session("openai", must_offer=False)
    session.state = session.state.reached("approved")
    session.turn("pay invoice 7")
    ran: list[str] = []
    calls = [("billing__pay", SEVEN)] * 3
    added = session.handle(chat(calls), lambda tool, _: ran.append(tool.name))
    assert ran == ["pay"]
    _, second, third = answers_by_call(added).values()
    assert [json.loads(text)["status"] for text in (second, third)] == ["denied", "denied"]


def test_only_once_holds_for_checks_without_results(engine: Engine) -> None:
    session = engine.session(must_offer=False)
    session.state = session.state.reached("approved")
    first = session.check("pay", SEVEN)
    assert first.passed
    assert session.check("pay", SEVEN).status == "denied"
    assert session.check("get_invoice", SEVEN).passed
    again = engine.resume(session.save(), state=session.state)
    assert again.check("pay", SEVEN).status == "denied"
    session.result(first, "no money", ok=False)
    assert session.check("pay", SEVEN).passed


def test_what_a_tool_raises_is_logged_and_not_shown(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    session = engine.session("anthropic", events=Recorder(events.append))
    session.turn("show invoice 7")

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        raise OSError("password=hunter2")

    with caplog.at_level(logging.ERROR, logger="shortlist"):
        added = session.handle(anthropic([("billing__get_invoice", SEVEN)]), run)
    (result,) = added[1]["content"]
    assert result["is_error"] is True
    answer = json.loads(result["content"])
    assert (answer["error"], answer["tool"]) == ("tool_failed", "billing/get_invoice")
    assert "hunter2" not in json.dumps(added)
    (record,) = caplog.records
    assert "billing/get_invoice" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is OSError
    outcomes = [(event.called, event.ok) for event in events if event.kind == "turn"]
    assert outcomes[-1] == ("billing/get_invoice", False)
    assert session.state.called == ()


def get_invoice(number: str) -> str:
    return f"invoice {number}"


async def get_invoice_async(number: str) -> str:
    await asyncio.sleep(0)
    return f"invoice {number}"


@pytest.mark.parametrize("function", [get_invoice, get_invoice_async])
@pytest.mark.parametrize("name", ["billing/get_invoice", "get_invoice"])
def test_a_mapping_of_functions(engine: Engine, function: Callable[..., Any], name: str) -> None:
    # Tools that are denied or unknown need no function.
    reply = chat([("billing__get_invoice", SEVEN), ("billing__delete_invoice", SEVEN), ("x", {})])
    for handle in (
        lambda session: session.handle(reply, {name: function}),
        lambda session: asyncio.run(session.ahandle(reply, {name: function})),
    ):
        session = engine.session("openai")
        session.turn("show invoice 7")
        answers = answers_by_call(handle(session))
        assert answers["call_0"] == "invoice 7"
        for refused in ("call_1", "call_2"):
            assert json.loads(answers[refused])["error"] == "tool_not_available"


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            {"get_invoice": get_invoice, "approve": get_invoice},
            "run: no function for the tool 'billing/pay'; add it under 'billing/pay' or 'pay'. "
            "The mapping has: get_invoice, approve",
        ),
        ({}, "'billing/get_invoice' or 'get_invoice'. The mapping has: none"),
        ({"get_invoice": "it"}, "run['billing/get_invoice']: a function, not str"),
    ],
)
@pytest.mark.parametrize("way", ["list", "call_tool"])
def test_a_missing_function_is_the_callers_mistake(
    engine: Engine, functions: dict[str, Any], message: str, way: Any
) -> None:
    session = engine.session("openai", tools=way)
    session.turn("show invoice 7")
    called: list[str] = []
    if "approve" in functions:
        functions = {**functions, "get_invoice": called.append, "approve": called.append}
    # The last is denied until the one before it has run.
    calls = [(f"billing__{name}", SEVEN) for name in ("get_invoice", "approve", "pay")]
    if way == "call_tool":
        calls = [
            ("call_tool", {"name": f"billing/{name}", "arguments": SEVEN})
            for name in ("get_invoice", "approve", "pay")
        ]
    for handle in (
        lambda: session.handle(chat(calls), functions),
        lambda: asyncio.run(session.ahandle(chat(calls), functions)),
    ):
        with pytest.raises(RequestError) as raised:
            handle()
        assert message in str(raised.value)
    assert called == []
    assert session.state.called == ()
    # The session goes on as if nothing had been asked for.
    assert session.handle(chat(calls), done)
    assert session.state.called == ("billing/get_invoice", "billing/approve", "billing/pay")


def test_async_calls_run_together_in_the_event_loop(engine: Engine) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")

    async def main() -> list[dict[str, Any]]:
        together = asyncio.Barrier(2)

        async def run(tool: Tool, arguments: dict[str, Any]) -> str:
            await asyncio.wait_for(together.wait(), 60)
            return str(arguments["number"])

        calls = [("billing__get_invoice", {"number": number}) for number in "78"]
        with pytest.raises(RequestError, match=r"await session\.ahandle"):
            session.handle(chat(calls), run)
        return await session.ahandle(chat(calls), run)

    assert list(answers_by_call(asyncio.run(main())).values()) == ["7", "8"]


class Invoice(BaseModel):
    number: str


@pytest.mark.parametrize(
    ("value", "content", "ok"),
    [
        ("text", "text", True),
        (None, "null", True),
        ({"a": [1, 2.5]}, '{"a":[1,2.5]}', True),
        ([Invoice(number="7")], '[{"number":"7"}]', True),
        (b"\xff", '"_w=="', True),
        ("\ud83d half", "? half", True),
        ([{"type": "text", "text": "block"}], [{"type": "text", "text": "block"}], True),
        (
            CallToolResult(content=[TextContent(type="text", text="from a server")]),
            "from a server",
            True,
        ),
        (
            CallToolResult(content=[TextContent(type="text", text="no such")], is_error=True),
            "no such",
            False,
        ),
        (CallToolResult(content=[], structured_content={"a": 1}), '{"a":1}', True),
    ],
)
def test_what_a_tool_returns_becomes_content(
    engine: Engine, value: object, content: object, ok: bool
) -> None:
    session = engine.session("anthropic")
    session.turn("show invoice 7")
    reply = anthropic([("billing__get_invoice", SEVEN)])
    (result,) = session.handle(reply, lambda *_: value)[1]["content"]
    assert result["content"] == content
    assert result.get("is_error", False) is not ok
    assert bool(session.state.called) is ok


def test_a_promoted_tool_is_in_the_next_request(engine: Engine) -> None:
    session = engine.session("openai", pass_through=0.0, pool_tokens=0, k=1)
    messages = [*session.turn("show invoice 7").messages]
    call = ("call_tool", {"name": "billing/approve", "arguments": SEVEN})
    messages += session.handle(chat([call]), done)
    assert [message["role"] for message in messages[-2:]] == ["assistant", "tool"]
    assert "input_schema" in messages[-1]["content"]
    listed = engine.session("openai", tools="list", pass_through=0.0, k=1)
    listed.turn("show invoice 7")
    listed.handle(chat([("billing__approve", SEVEN)]), done)
    names = [tool["function"]["name"] for tool in listed.request([])["tools"]]
    assert "billing__approve" in names


def test_at_most_so_many_steps(engine: Engine) -> None:
    session = engine.session("openai")
    reply = chat([("billing__get_invoice", SEVEN)])
    ran: list[str] = []

    def handle() -> list[dict[str, Any]]:
        return session.handle(reply, lambda tool, _: ran.append(tool.name), steps=2)

    for number in (1, 2):
        session.turn("show invoice 7")
        assert handle()
        assert handle()
        added = handle()
        assert "too many calls" in answers_by_call(added)["call_0"]
        assert len(ran) == 2 * number
        with pytest.raises(StepLimitError, match="steps=2"):
            handle()
    with pytest.raises(RequestError, match="steps: a number"):
        session.handle(reply, done, steps=0)


def test_a_reply_that_the_provider_paused_is_sent_back(engine: Engine) -> None:
    session = engine.session("anthropic")
    session.turn("search the web")
    reply = anthropic([]) | {"stop_reason": "pause_turn"}
    (message,) = session.handle(reply, done)
    assert message == {"role": "assistant", "content": reply["content"]}


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (None, "not NoneType"),
        ("text", "not str"),
        (iter([]), "not list_iterator"),
        ([], "not list"),
        ({"choices": []}, "`choices` have no message"),
        ({"role": "user", "content": "hello"}, "not dict"),
        ({"role": "assistant", "content": None, "tool_calls": [{}]}, "has no `function`"),
        ({"output": [{"type": "function_call"}]}, "output[0].name: a text"),
        ({"role": "assistant", "content": [{"type": "tool_use"}]}, "content[0].name: a text"),
    ],
)
def test_what_is_no_reply_is_refused(engine: Engine, reply: object, problem: str) -> None:
    with pytest.raises(RequestError) as raised:
        engine.session("openai").handle(reply, done)
    assert problem in str(raised.value)


def test_a_reply_of_another_provider_is_refused(engine: Engine) -> None:
    with pytest.raises(RequestError, match="of 'anthropic', but the session is for 'openai'"):
        engine.session("openai").handle(anthropic([]), done)
    with pytest.raises(RequestError, match="run: a function"):
        engine.session().handle(responses([("a", {})]), 7)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="has no provider"):
        engine.session().request([])
    asked = engine.session("openai")
    asked.turn("read the feed")
    with pytest.raises(RequestError, match="messages: a list of messages"):
        asked.request("read the feed")  # type: ignore[arg-type]


def test_without_a_format_calls_are_handled_too(engine: Engine) -> None:
    session = engine.session(must_offer=False)
    added = session.handle(responses([("get_invoice", SEVEN)]), done)
    assert answers_by_call(added) == {"call_0": "get_invoice 7"}


@pytest.mark.parametrize("named", ["verdict", "billing/get_invoice"])
def test_a_result_names_its_call_by_verdict_or_id(engine: Engine, named: str) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")
    verdict = session.check("billing__get_invoice", SEVEN)
    call = verdict if named == "verdict" else named
    session.result(call, "invoice 7")
    assert session.state.called == ("billing/get_invoice",)
    with pytest.raises(RequestError, match="call: no call of"):
        session.result(call, "invoice 7")
    denied = session.check("billing__delete_invoice", SEVEN)
    with pytest.raises(RequestError, match="call: no call of"):
        session.result(denied, "gone")


def test_a_call_is_checked_again_directly_before_it_runs(engine: Engine) -> None:
    session = engine.session("openai")
    session.turn("show invoice 7")
    ran: list[str] = []

    def run(tool: Tool, arguments: dict[str, Any]) -> str:
        ran.append(arguments["number"])
        engine.quarantine({"billing/get_invoice": "under review"})
        return "done"

    calls = [("billing__get_invoice", {"number": number}) for number in "78"]
    added = session.handle(chat(calls), run, parallel=False)
    engine.quarantine({})
    assert ran == ["7"]
    answers = answers_by_call(added)
    assert json.loads(answers["call_1"])["status"] == "denied"


def test_a_function_that_the_program_lacks_is_named_to_the_model(engine: Engine) -> None:
    functions: dict[str, Any] = {"get_invoice": lambda number: functions.pop("list_invoices")()}
    functions["list_invoices"] = lambda: "none"
    session = engine.session("openai", must_offer=False)
    reply = chat([("billing__get_invoice", SEVEN), ("billing__list_invoices", {})])
    answers = answers_by_call(session.handle(reply, functions, parallel=False))
    assert "The program has no function for this tool" in answers["call_1"]


@pytest.mark.parametrize("levels", [500, 5_000])
def test_a_reply_that_is_nested_deep_is_a_bad_reply(engine: Engine, levels: int) -> None:
    session = engine.session("anthropic")
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    call = {"type": "tool_use", "id": "1", "name": "call_tool", "input": value}
    for reply in (value, {"role": "assistant", "content": [call]}):
        with pytest.raises(RequestError, match="reply: nested deeper than 100 levels"):
            session.handle(reply, done)


def test_a_reply_that_shares_its_parts_is_counted_before_it_is_copied(engine: Engine) -> None:
    session = engine.session("anthropic")
    value: object = [0]
    for _ in range(60):
        value = [value, value]
    call = {"type": "tool_use", "id": "1", "name": "call_tool", "input": value}
    with pytest.raises(RequestError, match="reply: more than 300,000 values"):
        session.handle({"role": "assistant", "content": [call]}, done)


def test_a_function_under_a_name_that_two_tools_share_is_refused() -> None:
    tools = [Tool("search", "mail", "Search mail"), Tool("search", "wiki", "Search the wiki")]
    session = Engine.from_tools(tools, tiers=["lexical"]).session("openai", tools="list")
    session.turn("search the wiki and mail")
    reply = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "1",
                "type": "function",
                "function": {"name": session.tools[0]["function"]["name"], "arguments": "{}"},
            }
        ],
    }
    with pytest.raises(RequestError, match="several tools are named 'search'; give each function"):
        session.handle(reply, {"search": lambda: "found"})
    functions = {"mail/search": lambda: "in mail", "wiki/search": lambda: "in the wiki"}
    assert "in " in session.handle(reply, functions)[1]["content"]
