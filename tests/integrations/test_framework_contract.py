"""What every adapter does, with the real framework and a model that follows a script."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from agents.exceptions import UserError

import shortlist
from shortlist import State, Tool
from shortlist.errors import RequestError
from shortlist.gating.verdict import Verdict
from shortlist.integrations.framework_tools import CallRefused, FrameworkTools
from shortlist.loaders.counting import cached_token_count

from .framework_agents import (
    ADAPTERS,
    DEFINITIONS,
    Agent,
    FastMCP,
    OpenAIAgents,
    PydanticAI,
    engine,
)

MAIL = {"text": "7"}
DEFINITION_TOKENS = 600


@pytest.fixture(params=ADAPTERS, ids=lambda adapter: adapter.name)
def adapter(request: pytest.FixtureRequest) -> type[Agent]:
    return request.param


def skip_without(adapter: type[Agent], part: str) -> None:
    if part in adapter.skips:
        pytest.skip(f"{adapter.name}: a server of tools has no {part!r}")


def searched(query: str) -> list[tuple[str, dict[str, Any]]]:
    return [("search_tools", {"query": query})]


def test_a_turn_offers_what_it_needs(adapter: type[Agent]) -> None:
    skip_without(adapter, "unasked")
    run = adapter(k=3).ask("send a mail to a person", [[("send_mail", MAIL)], "Sent."])
    assert run.answers == ["send_mail is done"]
    assert run.text == "Sent."
    assert "send_mail" in run.offered[0]
    assert len(run.offered[0]) < 12


def test_the_model_searches_and_calls_what_was_found(adapter: type[Agent]) -> None:
    agent = adapter(k=3)
    run = agent.ask("hello", [searched("print a recipe"), [("print_recipe", MAIL)], "Printed."])
    assert "print_recipe" in run.answers[0]
    assert run.answers[1] == "print_recipe is done"
    assert agent.ran == [("print_recipe", "7")]
    if "offered" not in adapter.skips:
        assert "print_recipe" not in run.offered[0]
        assert "print_recipe" in run.offered[1]


def test_a_search_without_a_fit_or_a_query_says_so(adapter: type[Agent]) -> None:
    run = adapter().ask("hello", [searched("qwertz"), searched("  "), "I cannot."])
    assert "No tool fits." in run.answers[0]
    assert "query" in run.answers[1]


def test_definitions_keep_to_the_budget(adapter: type[Agent]) -> None:
    name = "turn_tokens" if adapter is FastMCP else "list_tokens"
    agent = adapter(**{name: DEFINITION_TOKENS})
    run = agent.ask("approve an invoice", [searched("archive the contract"), "No."])
    everything = sum(cached_token_count(json.dumps(dict(t.input_schema))) for t in DEFINITIONS)
    for offered in run.offered:
        assert sum(cached_token_count(json.dumps(s)) for s in offered.values()) < everything / 3
    assert cached_token_count(run.answers[0]) <= 2 * DEFINITION_TOKENS + 100


def test_a_wrong_call_is_answered_with_what_mends_it(adapter: type[Agent]) -> None:
    agent = adapter()
    wrong = [("send_mail", {"txt": "7"})]
    script = [searched("send a mail"), wrong, [("send_mail", MAIL)], "Sent."]
    run = agent.ask("send a mail to a person", script)
    assert "text" in run.answers[1]
    assert run.answers[2] == "send_mail is done"
    assert agent.ran == [("send_mail", "7")]


def test_only_success_unlocks(adapter: type[Agent]) -> None:
    agent = adapter(k=4)
    read, delete = [("read_mail", MAIL)], [("delete_mail", MAIL)]
    find = searched("read or delete an electronic mail")
    run = agent.ask("read or delete my mail", [find, delete, read, find, delete, "Done."])
    assert "delete_mail" not in run.answers[0]
    assert run.answers[2] == "read_mail is done"
    assert run.answers[4] == "delete_mail is done"
    assert agent.ran == [("read_mail", "7"), ("delete_mail", "7")]
    for offered in run.offered[:3]:
        assert "delete_mail" not in offered


def test_a_tool_that_fails_unlocks_nothing(adapter: type[Agent]) -> None:
    agent = adapter(k=4)
    find = searched("read or delete an electronic mail")
    with suppress(RuntimeError, UserError):
        # Some frameworks end the run with the exception of the tool.
        agent.ask("read my mail", [find, [("read_mail", {"text": "fail"})], "It failed."])
    assert agent.ran == [("read_mail", "fail")]
    run = agent.ask("delete my mail", [find, [("delete_mail", MAIL)], "No."])
    assert agent.ran == [("read_mail", "fail")]
    assert "delete_mail" not in run.answers[0]


def test_what_is_denied_is_neither_found_nor_run(adapter: type[Agent]) -> None:
    transfer = [("transfer_money", MAIL)]
    script = [searched("transfer money to a bank"), transfer, "No."]
    agent = adapter()
    run = agent.ask("transfer money to a bank", script)
    assert agent.ran == []
    assert "transfer_money" not in run.answers[0]
    assert "needs the scope 'money'" in run.answers[1]
    assert not any("transfer_money" in offered for offered in run.offered)
    agent = adapter(state=State(scopes={"money"}))
    run = agent.ask("transfer money to a bank", script)
    assert run.answers[1] == "transfer_money is done"


def test_a_name_that_no_tool_has_is_answered_with_the_nearest(adapter: type[Agent]) -> None:
    run = adapter().ask("hello", [[("send_mial", MAIL)], "I cannot."])
    assert json.loads(run.answers[0])["status"] == "unknown"
    assert "send_mail" in json.loads(run.answers[0])["nearest"]


def test_a_tool_that_was_not_offered_is_from_then_on(adapter: type[Agent]) -> None:
    skip_without(adapter, "offered")
    agent = adapter()
    run = agent.ask("hello", [[("send_mail", MAIL)], [("send_mail", MAIL)], "Sent."])
    assert json.loads(run.answers[0])["status"] == "promoted"
    assert run.answers[1] == "send_mail is done"
    assert agent.ran == [("send_mail", "7")]


def test_what_was_found_and_called_outlives_a_restart(adapter: type[Agent]) -> None:
    skip_without(adapter, "restart")
    agent = adapter(k=3)
    find = searched("print a contract")
    run = agent.ask("hello", [find, searched("list an album"), [("print_contract", MAIL)], "Yes."])
    assert run.answers[2] == "print_contract is done"
    found = {name for name in run.offered[2] if name != "print_contract"}
    assert "list_album" in found
    run = agent.restarted().ask("hello again", [find, [("print_contract", MAIL)], "No."])
    assert found <= set(run.offered[0])
    assert json.loads(run.answers[-1])["status"] == "denied"
    assert agent.ran == [("print_contract", "7")]


def test_parallel_calls_are_all_answered(adapter: type[Agent]) -> None:
    agent = adapter()
    calls = [("read_mail", {"text": str(number)}) for number in range(4)]
    run = agent.ask("read my mail", [searched("read a mail"), calls, "Read."])
    assert run.answers[1:] == ["read_mail is done"] * 4
    assert sorted(agent.ran) == [("read_mail", str(number)) for number in range(4)]


def test_streaming_offers_the_same(adapter: type[Agent]) -> None:
    skip_without(adapter, "stream")
    script = [searched("print a recipe"), [("print_recipe", MAIL)], "Printed."]
    run, streamed = adapter().ask("hello", script), adapter().ask("hello", script, stream=True)
    assert streamed.answers == run.answers
    assert [list(o) for o in streamed.offered] == [list(o) for o in run.offered]


def test_a_conversation_goes_on(adapter: type[Agent]) -> None:
    skip_without(adapter, "unasked")
    agent = adapter(k=3)
    agent.ask("read my mail", [[("read_mail", MAIL)], "Read."])
    run = agent.ask("now delete this electronic mail", [[("delete_mail", MAIL)], "Deleted."])
    assert run.answers[-1:] == ["delete_mail is done"]


def test_the_examples_of_the_page_run() -> None:
    from pydantic_ai.models.function import FunctionModel

    page = Path(shortlist.__file__).parent / "docs" / "frameworks.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.M)
    assert len(blocks) == 4
    assert all(block.count("\n") <= 20 for block in blocks)
    pydantic_ai, agents, server = PydanticAI(), OpenAIAgents(), FastMCP()
    pydantic_ai.script = ["One.", "Two.", "Three."]
    agents.script, agents.earlier = ["Four."], 0
    names: dict[str, Any] = {
        "model": FunctionModel(pydantic_ai.reply),
        "toolset": pydantic_ai.functions,
        "function_tools": agents.function_tools,
        "agents_model": agents.agent.model,
        "server": server.server,
    }
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    assert names["again"].output == "Two."
    assert names["found"].output == "Three."
    assert names["answer"].final_output == "Four."


def test_the_strategy_ranks_for_the_tool_search_of_pydantic_ai() -> None:
    from pydantic_ai.tools import ToolDefinition

    from shortlist.integrations.pydantic_ai import search_strategy

    definitions = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=dict(tool.input_schema),
        )
        for tool in DEFINITIONS
    ]
    found = asyncio.run(search_strategy(k=3)(None, ["transfer money to a bank"], definitions))
    assert found[0] == "transfer_money"
    assert len(found) <= 3


def test_a_tool_with_the_name_of_the_search_is_refused() -> None:
    tools = FrameworkTools(None, None)
    search = Tool("search_tools", None, "Search the tools of the workshop")
    with pytest.raises(RequestError, match="one is named 'search_tools'"):
        tools.follow_tools([*DEFINITIONS, search])


def test_only_tools_of_the_framework_are_found_and_called() -> None:
    tools = FrameworkTools(engine(), None)
    tools.follow_tools([tool for tool in DEFINITIONS if tool.name != "send_mail"])
    session = tools.session("one", None)
    offered = session.offer([("user", "send an electronic mail to a person")])
    assert "send_mail" not in {tool["function"]["name"] for tool in offered}
    assert "send_mail" not in session.search({"query": "send an electronic mail"})
    with pytest.raises(CallRefused):
        session.check("send_mail", MAIL, [])
    tools.follow_tools(DEFINITIONS)
    assert "send_mail" in tools.session("one", None).search({"query": "send an electronic mail"})


def test_a_result_of_another_thread_is_kept_when_the_state_is_renewed() -> None:
    tools = FrameworkTools(engine(), State(scopes={"money"}))
    tools.follow_tools(DEFINITIONS)
    session = tools.session("one", None)
    session.offer([("user", "read a mail")])
    passed: list[Verdict] = []
    session.check("read_mail", MAIL, passed)
    session.session.result(passed[0], "read")
    present = tools.session("one", None).session.state
    assert (present.called, present.scopes) == (("read_mail",), {"money"})


def test_a_cancelled_call_may_have_run() -> None:
    async def cancel() -> None:
        started = asyncio.Event()

        async def hang(_tool: Tool, _arguments: dict[str, Any]) -> None:
            started.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(session.call("print_contract", MAIL, hang))
        await started.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    tools = FrameworkTools(engine(), None)
    tools.follow_tools(DEFINITIONS)
    session = tools.session("one", None)
    session.offer([("user", "print a contract")])
    asyncio.run(cancel())
    state = session.session.state
    assert (state.called, state.unknown) == ((), ("print_contract",))
    with pytest.raises(CallRefused, match="print_contract"):
        session.check("print_contract", MAIL, [])


def test_a_call_that_is_cancelled_during_its_check_has_not_run() -> None:
    async def cancel() -> None:
        running = asyncio.create_task(session.call("print_contract", MAIL, never))
        await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def never(_tool: Tool, _arguments: dict[str, Any]) -> None:
        raise AssertionError("the call was cancelled")

    tools = FrameworkTools(engine(), None)
    tools.follow_tools(DEFINITIONS)
    session = tools.session("one", None)
    session.offer([("user", "print a contract")])
    asyncio.run(cancel())
    assert session.session.save()["waiting"] == {}


def test_a_tool_that_leaves_the_list_during_a_reply_can_still_be_called() -> None:
    tools = FrameworkTools(engine(), None, k=2, list_tokens=120)
    tools.follow_tools(DEFINITIONS)
    session = tools.session("one", None)
    offered = session.offer([("user", "send or read an electronic mail")])
    assert {"send_mail", "read_mail"} <= {tool["function"]["name"] for tool in offered}
    passed: list[Verdict] = []
    session.check("read_mail", MAIL, passed)
    session.search({"query": "list an album"})
    session.search({"query": "print a recipe"})
    assert "send_mail" not in session.offered_names
    session.check("send_mail", MAIL, passed)
    assert [verdict.status for verdict in passed] == ["passed", "passed"]
    assert "Added to your list of tools" in session.search({"query": "send a mail"})
