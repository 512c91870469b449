"""Approvals and limits of the frameworks hold by a tool's own name, whatever way it was found."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolCallLimitMiddleware
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from shortlist import Engine, Gate, Rule, State
from shortlist.gating import argument, requires_scope
from shortlist.integrations.langchain import ShortlistMiddleware

from .conftest import IN_THREAD, ScriptedModel, call, say
from .framework_agents import DEFINITIONS, FastMCP, LangChain, OpenAIAgents, PydanticAI, Run

MAIL = {"text": "7"}
ONCE = ("print_contract", MAIL)
FOUND = ("search_tools", {"query": "transfer money to an account of a bank"})
TRANSFER = ("transfer_money", MAIL)
THROUGH_CALL_TOOL = ("call_tool", {"name": "transfer_money", "arguments": MAIL})
RICH = State(scopes={"money"})
IN_BOTH_ORDERS = pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
IN_BOTH_WAYS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


class GuardedLangChain:
    """An agent with the middleware, and one of LangChain's before or after it."""

    def __init__(
        self,
        script: list[Any],
        guard: Any,
        *,
        is_first: bool = True,
        is_async: bool = False,
        checkpointer: Any = None,
    ) -> None:
        self.parts = LangChain(state=RICH)
        self.ran = self.parts.ran
        self.model = ScriptedModel(script=script)
        self.checkpointer = checkpointer or InMemorySaver()
        self._is_async = is_async
        self._middleware = ShortlistMiddleware(self.parts.tools, **self.parts.settings)
        middlewares = [guard, self._middleware] if is_first else [self._middleware, guard]
        self.agent = create_agent(
            self.model, middleware=middlewares, checkpointer=self.checkpointer
        )

    @property
    def state(self) -> State:
        return self._middleware.session("t1").state

    def run(self, given: Any) -> dict[str, Any]:
        if self._is_async:
            return asyncio.run(self.agent.ainvoke(given, IN_THREAD))
        return self.agent.invoke(given, IN_THREAD)

    def ask(self, text: str) -> dict[str, Any]:
        return self.run({"messages": [HumanMessage(text)]})


@IN_BOTH_ORDERS
@IN_BOTH_WAYS
@pytest.mark.parametrize("called", [THROUGH_CALL_TOOL, TRANSFER], ids=["call_tool", "by name"])
def test_langchain_asks_a_person_whatever_way_a_tool_is_called(called, is_first, is_async):
    guard = HumanInTheLoopMiddleware(interrupt_on={"transfer_money": True})
    script = [call(FOUND), call(called), call(TRANSFER), say("Done.")]
    agent = GuardedLangChain(script, guard, is_first=is_first, is_async=is_async)
    state = agent.ask("hello")
    assert agent.ran == []
    [action] = state["__interrupt__"][0].value["action_requests"]
    assert (action["name"], action["args"]) == TRANSFER
    agent.model.script[:] = [say("Done.")]
    approved = {"decisions": [{"type": "approve"}]}
    assert agent.run(Command(resume=approved))["messages"][-1].text == "Done."
    assert agent.ran == [("transfer_money", "7")]


@IN_BOTH_ORDERS
@IN_BOTH_WAYS
def test_langchain_asks_for_each_call_as_it_starts(is_first, is_async):
    guard = HumanInTheLoopMiddleware(
        interrupt_on={"transfer_money": True}, interrupt_mode="per_call"
    )
    script = [call(FOUND), call(TRANSFER, ("search_tools", {"query": "send a mail"})), say("Done.")]
    agent = GuardedLangChain(script, guard, is_first=is_first, is_async=is_async)
    state = agent.ask("hello")
    assert agent.ran == []
    assert state["__interrupt__"][0].value["name"] == "transfer_money"
    agent.run(Command(resume={"type": "approve"}))
    assert agent.ran == [("transfer_money", "7")]


@IN_BOTH_ORDERS
@IN_BOTH_WAYS
@pytest.mark.parametrize("called", [THROUGH_CALL_TOOL, TRANSFER], ids=["call_tool", "by name"])
def test_langchain_counts_every_call_of_a_tool(called, is_first, is_async):
    guard = ToolCallLimitMiddleware(tool_name="transfer_money", run_limit=1)
    script = [call(FOUND), call(called), call(called), call(TRANSFER), say("Done.")]
    agent = GuardedLangChain(script, guard, is_first=is_first, is_async=is_async)
    agent.ask("hello")
    assert agent.ran == [("transfer_money", "7")]


@IN_BOTH_ORDERS
def test_a_pause_of_langchain_is_no_outcome(is_first):
    guard = HumanInTheLoopMiddleware(
        interrupt_on={"print_contract": True}, interrupt_mode="per_call"
    )
    find = ("search_tools", {"query": "print a contract"})
    script = [call(find), call(ONCE), call(ONCE), say("Done.")]
    agent = GuardedLangChain(script, guard, is_first=is_first, is_async=False)
    agent.ask("hello")
    assert agent.state.unknown == agent.state.called == ()
    # An approval runs the call, which uses up the only one.
    agent.run(Command(resume={"type": "approve"}))
    assert agent.ran == [("print_contract", "7")]
    assert (agent.state.called, agent.state.unknown) == (("print_contract",), ())


@IN_BOTH_ORDERS
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_an_approval_of_langchain_can_follow_a_restart(mode, is_first):
    guard = HumanInTheLoopMiddleware(interrupt_on={"transfer_money": True}, interrupt_mode=mode)
    agent = GuardedLangChain([call(FOUND), call(TRANSFER)], guard, is_first=is_first)
    agent.ask("hello")
    script = [call(FOUND), say("Done.")]
    later = GuardedLangChain(script, guard, is_first=is_first, checkpointer=agent.checkpointer)
    decision = {"type": "approve"}
    later.run(Command(resume={"decisions": [decision]} if mode == "batched" else decision))
    assert later.ran == [("transfer_money", "7")]
    assert "transfer_money" in later.model.offered[0]


def test_a_cancelled_call_of_langchain_may_have_run():
    started = asyncio.Event()

    async def hang(text: str) -> str:
        started.set()
        await asyncio.Event().wait()
        return text

    async def cancel() -> None:
        given = {"messages": [HumanMessage("print a contract")]}
        running = asyncio.create_task(agent.agent.ainvoke(given, IN_THREAD))
        await started.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    agent = GuardedLangChain([call(ONCE)], ToolCallLimitMiddleware(run_limit=9))
    [tool] = [tool for tool in agent.parts.tools if tool.name == "print_contract"]
    tool.coroutine = hang
    asyncio.run(cancel())
    assert (agent.state.called, agent.state.unknown) == ((), ("print_contract",))


def test_a_person_who_answers_in_place_of_a_tool_unlocks_nothing_after_a_restart():
    guard = HumanInTheLoopMiddleware(interrupt_on={"print_contract": True})
    agent = GuardedLangChain([call(ONCE), say("Done.")], guard)
    agent.ask("print a contract")
    agent.run(Command(resume={"decisions": [{"type": "respond", "message": "I did it."}]}))
    assert agent.ran == []
    later = GuardedLangChain([say("Yes.")], guard, checkpointer=agent.checkpointer)
    later.ask("was it printed?")
    assert later.state.called == agent.state.called == ()


# pydantic-ai


def deferring(agent: PydanticAI, kind: str) -> Any:
    """An agent that stops before it transfers money."""
    import pydantic_ai as ai
    from pydantic_ai.models.function import FunctionModel

    from shortlist.integrations.pydantic_ai import shortlist_toolset

    functions: Any = agent.functions
    if kind == "of the toolset":
        functions = functions.approval_required(
            lambda _ctx, definition, _arguments: definition.name == "transfer_money"
        )
    else:
        functions.tools["transfer_money"].requires_approval = True
    return ai.Agent(
        FunctionModel(agent.reply),
        toolsets=[shortlist_toolset(functions, **agent.settings)],
        output_type=[str, ai.DeferredToolRequests],
    )


@pytest.mark.parametrize("kind", ["of the tool", "of the toolset"])
def test_an_approval_of_pydantic_ai_holds_and_can_follow_a_restart(kind):
    import pydantic_ai as ai

    agent = PydanticAI(state=RICH, k=3)
    agent.script = [[FOUND], [TRANSFER]]
    first = deferring(agent, kind).run_sync("hello")
    assert isinstance(first.output, ai.DeferredToolRequests)
    [waiting] = first.output.approvals
    assert (waiting.tool_name, agent.ran) == ("transfer_money", [])
    later = PydanticAI(state=RICH, k=3)
    later.script = ["Done."]
    approved = ai.DeferredToolResults(approvals={waiting.tool_call_id: True})
    kept = ai.ModelMessagesTypeAdapter.validate_json(first.all_messages_json())
    result = deferring(later, kind).run_sync(message_history=kept, deferred_tool_results=approved)
    assert (result.output, later.ran) == ("Done.", [("transfer_money", "7")])


# The OpenAI Agents SDK


def test_an_approval_of_the_agents_sdk_holds_and_can_follow_a_restart():
    from agents import Runner, RunState

    def made() -> OpenAIAgents:
        agent = OpenAIAgents(state=RICH, k=3, needs_approval="transfer_money")
        agent.earlier = 0
        return agent

    async def start(agent: OpenAIAgents) -> dict[str, Any]:
        result = await Runner.run(agent.agent, "hello", run_config=agent.tools.run_config)
        [waiting] = result.interruptions
        assert waiting.raw_item.name == "transfer_money"
        return result.to_state().to_json()

    async def go_on(agent: OpenAIAgents, saved: dict[str, Any]) -> str:
        state = await RunState.from_json(agent.agent, saved)
        [waiting] = state.get_interruptions()
        state.approve(waiting)
        result = await Runner.run(agent.agent, state, run_config=agent.tools.run_config)
        return str(result.final_output)

    agent = made()
    agent.script = [[FOUND], [TRANSFER]]
    saved = json.loads(json.dumps(asyncio.run(start(agent))))
    assert agent.ran == []
    later = made()
    later.script = ["Done."]
    assert asyncio.run(go_on(later, saved)) == "Done."
    assert later.ran == [("transfer_money", "7")]


def test_a_session_of_the_agents_sdk_keeps_what_was_found_and_called(tmp_path):
    from agents import Runner, SQLiteSession

    async def ask(agent: OpenAIAgents, text: str) -> None:
        kept = SQLiteSession("one", tmp_path / "messages.db")
        config = agent.tools.run_config
        await Runner.run(agent.agent, text, session=kept, run_config=config)
        kept.close()

    agent, later = OpenAIAgents(k=3), OpenAIAgents(k=3)
    agent.earlier, later.earlier = 0, 2
    agent.script = [[("search_tools", {"query": "print a contract"})], [ONCE], "Printed."]
    later.script = [[ONCE], "No."]
    asyncio.run(ask(agent, "hello"))
    asyncio.run(ask(later, "hello again"))
    assert "print_contract" in agent.run.offered[1]
    assert agent.run.offered[1].keys() - {"print_contract"} <= later.run.offered[0].keys()
    assert json.loads(later.run.answers[0])["status"] == "denied"
    assert (agent.ran, later.ran) == ([("print_contract", "7")], [])


def test_a_function_of_the_agents_sdk_that_fails_unlocks_nothing():
    from agents import Agent, Runner, function_tool

    from shortlist.integrations.openai_agents import ShortlistTools

    @function_tool
    def read_mail(text: str) -> str:
        """Read an electronic mail of a person."""
        raise RuntimeError("the server is down")

    agent = OpenAIAgents(k=3)
    agent.earlier = 0
    others = [tool for tool in agent.function_tools if tool.name != "read_mail"]
    tools = ShortlistTools([read_mail, *others], **agent.settings)
    find = ("search_tools", {"query": "read or delete an electronic mail"})
    agent.script = [[find], [("read_mail", MAIL)], [("delete_mail", MAIL)], "No."]
    helper = Agent("helper", tools=tools.tools, model=agent.agent.model)
    Runner.run_sync(helper, "read my mail", run_config=tools.run_config)
    assert "An error occurred" in agent.run.answers[1]
    assert json.loads(agent.run.answers[2])["status"] == "denied"
    assert agent.ran == []


# FastMCP


def test_a_middleware_of_fastmcp_sees_the_real_tool():
    from fastmcp.exceptions import ToolError
    from fastmcp.server.middleware import Middleware

    seen = []

    class Approval(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append((context.message.name, context.message.arguments))
            if context.message.name == "transfer_money":
                raise ToolError("a person has to approve this call")
            return await call_next(context)

    agent = FastMCP(state=RICH)
    agent.server.add_middleware(Approval())
    run = agent.ask("", [[FOUND], [TRANSFER], [("send_mail", MAIL)], "Done."])
    assert "a person has to approve this call" in run.answers[1]
    assert run.answers[2] == "send_mail is done"
    assert agent.ran == [("send_mail", "7")]
    assert TRANSFER in seen


RULES = Gate([Rule(tools="transfer_money", when=argument("text", not_matches="5*"), approval=True)])


class RuleOfLangChain(GuardedLangChain):
    """An agent whose only guard is a rule."""

    def __init__(self, script, *, is_async=False, checkpointer=None, gate=RULES):
        self.parts = LangChain(state=RICH)
        self.ran = self.parts.ran
        self.model = ScriptedModel(script=script)
        self.checkpointer = checkpointer or InMemorySaver()
        self._is_async = is_async
        engine = Engine.from_tools(self.parts.tools, gate=gate, tiers=["lexical"])
        self._middleware = ShortlistMiddleware(
            self.parts.tools, **{**self.parts.settings, "engine": engine, "pass_through": 1.0}
        )
        self.agent = create_agent(
            self.model, middleware=[self._middleware], checkpointer=self.checkpointer
        )


@IN_BOTH_WAYS
@pytest.mark.parametrize(
    ("answer", "runs", "text"),
    [
        ({"type": "approve"}, 1, ""),
        ({"type": "reject", "message": "Not today."}, 0, "Not today."),
        (True, 1, ""),
        (None, 0, "did not approve"),
    ],
)
def test_a_rule_interrupts_langgraph_also_after_a_restart(answer, runs, text, is_async):
    agent = RuleOfLangChain([call(("transfer_money", {"text": "5"}), TRANSFER)], is_async=is_async)
    state = agent.ask("transfer money")
    assert agent.ran == [("transfer_money", "5")]
    value = state["__interrupt__"][0].value
    assert (value["name"], value["args"]) == TRANSFER
    assert "argument 'text'" in value["description"]
    later = RuleOfLangChain([say("Done.")], is_async=is_async, checkpointer=agent.checkpointer)
    resume = {state["__interrupt__"][0].id: answer} if answer is None else answer
    messages = later.run(Command(resume=resume))["messages"]
    assert later.ran == [("transfer_money", "7")] * runs
    assert text in messages[-2].text


def test_langgraph_checks_an_approved_call_as_it_is_now():
    agent = RuleOfLangChain([call(TRANSFER)])
    agent.ask("transfer money")
    gate = Gate([*RULES.rules, Rule(requires_scope("gone"), tools="transfer_money")])
    later = RuleOfLangChain([say("Done.")], checkpointer=agent.checkpointer, gate=gate)
    messages = later.run(Command(resume={"type": "approve"}))["messages"]
    assert later.ran == []
    assert "needs the scope 'gone'" in messages[-2].text


@pytest.mark.parametrize("decision", ["approve", "refuse", "gone"])
def test_a_rule_defers_a_call_of_pydantic_ai_also_after_a_restart(decision):
    from pydantic_ai import DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    def agent_with(*rules):
        engine = Engine.from_tools(
            DEFINITIONS, gate=Gate([*RULES.rules, *rules]), tiers=["lexical"]
        )
        agent = PydanticAI(engine=engine, state=RICH, pass_through=1.0)
        agent.run = Run()
        return agent

    output = [str, DeferredToolRequests]
    agent = agent_with()
    agent.script = [[("transfer_money", {"text": "5"}), TRANSFER]]
    result = agent.agent.run_sync("transfer money", output_type=output)
    assert agent.ran == [("transfer_money", "5")]
    [waiting] = result.output.approvals
    assert result.output.metadata[waiting.tool_call_id] == {"rules": ["for tools transfer_money"]}
    kept = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
    extra = [Rule(requires_scope("gone"), tools="transfer_money")] if decision == "gone" else []
    later = agent_with(*extra)
    later.script = ["Done."]
    results = DeferredToolResults(approvals={waiting.tool_call_id: decision != "refuse"})
    answer = later.agent.run_sync(
        message_history=kept, deferred_tool_results=results, output_type=output
    )
    assert answer.output == "Done."
    assert later.ran == [("transfer_money", "7")] * (decision == "approve")
