"""A real agent of LangChain over sixty tools, with a scripted model."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool

from shortlist import Catalog, Engine, Tool
from shortlist.errors import MissingExtraError, RequestError
from shortlist.integrations.langchain import ShortlistMiddleware
from shortlist.session import Event, Recorder

from .conftest import IN_THREAD, ISSUE, ScriptedModel, agent_of, answers, ask, call, say


def test_what_was_found_stays_while_there_is_room(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=4, list_tokens=9_000)
    script = [
        call(("create_issue", ISSUE)),
        say("Filed."),
        say("Which table?"),
        call(("describe_table", {"table": "orders"})),
        say("It has four columns."),
    ]
    agent, model = agent_of(script, middleware)
    ask(agent, "file an issue that prices are wrong")
    ask(agent, "describe the columns of a table in the database")
    ask(agent, "the orders one")
    for before, now in zip(model.offered, model.offered[1:], strict=False):
        assert set(before) <= set(now)
    assert "describe_table" in model.offered[2]
    assert middleware.session("t1").state.called == (
        "github/create_issue",
        "database/describe_table",
    )


def test_the_pool_ends_the_system_message_and_does_not_change(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2)
    script = [call(("create_issue", ISSUE)), say("Filed."), say("None.")]
    agent, model = agent_of(script, middleware, system_prompt="Be brief.")
    ask(agent, "file an issue")
    ask(agent, "which tables are there?", {"configurable": {"thread_id": "t2"}})
    systems = [messages[0] for messages in model.read]
    assert all(isinstance(one, SystemMessage) for one in systems)
    assert len({one.text for one in systems}) == 1
    assert systems[0].text.startswith("Be brief.\n\n60 tools on 3 servers.\n")
    assert "about backup" in systems[0].text


def test_a_cache_breakpoint_where_the_provider_has_one(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine)
    model = ScriptedModel(script=[say("Hello.")], kind="anthropic-chat")
    agent, _ = agent_of([], middleware, model=model, system_prompt="Be brief.")
    ask(agent, "file an issue")
    own, pool = model.read[0][0].content
    assert own == {"type": "text", "text": "Be brief."}
    assert pool["text"].startswith("60 tools")
    assert pool["cache_control"] == {"type": "ephemeral"}


def test_a_small_catalog_is_shown_whole(tools):
    few = tools[:6]
    engine = Engine.from_tools(few, tiers=["lexical"])
    middleware = ShortlistMiddleware(few, engine=engine)
    agent, model = agent_of([call(("create_pull_request", {})), say("Hm.")], middleware)
    (answer,) = answers(ask(agent, "hello"))
    assert sorted(model.offered[0]) == sorted(tool.name for tool in few)
    assert not isinstance(model.read[0][0], SystemMessage)
    assert json.loads(answer.content)["status"] == "invalid"


@pytest.mark.parametrize("messages", [[], [AIMessage("Hello.")], [HumanMessage(" ")]])
def test_nothing_asked_offers_only_the_search(tools, engine, messages):
    agent, model = agent_of([say("Yes?")], ShortlistMiddleware(tools, engine=engine))
    agent.invoke({"messages": messages}, IN_THREAD)
    assert model.offered == [["search_tools"]]


def test_tools_from_elsewhere_are_left_alone(tools, engine):
    @tool
    def current_time() -> str:
        """What time it is."""
        return "noon"

    middleware = ShortlistMiddleware(tools, engine=engine, k=2)
    script = [call(("current_time", {}), ("create_issue", ISSUE)), say("Noon.")]
    agent, model = agent_of(script, middleware, others=[current_time])
    first, second = answers(ask(agent, "file an issue"))
    assert (first.content, second.status) == ("noon", "success")
    assert all(offered[0] == "current_time" for offered in model.offered)


def test_tools_always_offered(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2, always=["list_locks"])
    agent, model = agent_of([say("Yes.")], middleware)
    ask(agent, "file an issue")
    assert "list_locks" in model.offered[0]


def test_without_a_thread_a_conversation_is_known_by_its_first_message(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2, list_tokens=9_000)
    model = ScriptedModel(script=[say("Filed."), say("None."), say("Hm.")])
    agent = create_agent(model, middleware=[middleware])
    first = agent.invoke({"messages": [HumanMessage("file an issue")]})["messages"]
    agent.invoke({"messages": [*first, HumanMessage("describe a table of the database")]})
    agent.invoke({"messages": [HumanMessage("describe a table of the database")]})
    assert set(model.offered[0]) < set(model.offered[1])
    assert model.offered[2] != model.offered[1]


def test_what_was_called_before_a_restart_still_counts(tools, engine):
    history = [
        HumanMessage("back up the database", id="h1"),
        call(("create_backup", {})),
    ]
    asked = history[1].tool_calls[0]["id"]
    done = ToolMessage("done", name="create_backup", tool_call_id=asked)
    middleware = ShortlistMiddleware(tools, engine=engine)
    agent, _ = agent_of([say("Yes.")], middleware)
    given = [*history, done, AIMessage("It is."), HumanMessage("is it safe?")]
    agent.invoke({"messages": given}, IN_THREAD)
    assert middleware.session("t1").state.called == ("database/create_backup",)


def test_a_retry_of_the_model_is_no_turn(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine)
    turns: list[int] = []

    class Twice(ShortlistMiddleware):
        name = "Twice"

        def wrap_model_call(self, request, handler):
            middleware.wrap_model_call(request, handler)
            turns.append(len(middleware.session("t1").active))
            return middleware.wrap_model_call(request, handler)

    agent, model = agent_of([say("No."), say("Yes.")], Twice(tools, engine=engine))
    ask(agent, "file an issue")
    assert model.offered[0] == model.offered[1]
    assert turns == [len(set(model.offered[0]) - {"search_tools"})]
    assert middleware.session("t1").save()["turn"] == 1


def test_a_tool_the_agent_cannot_run_is_never_offered(tools):
    engine = Engine.from_tools(tools, tiers=["lexical"])
    middleware = ShortlistMiddleware(tools, engine=engine)
    engine.replace([*engine.catalog, Tool("file_issue", "forge", "File an issue.")])
    agent, model = agent_of([call(("file_issue", {})), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    assert json.loads(answer.content)["kind"] == "not_allowed"
    assert "file_issue" not in model.offered[0]
    assert "file_issue" not in model.read[0][0].text


def test_two_tools_of_one_name_are_refused(tools, engine):
    with pytest.raises(RequestError, match="two are named"):
        ShortlistMiddleware([*tools, tools[0]], engine=engine)


def test_an_engine_over_other_tools_is_refused(tools, engine):
    with pytest.raises(RequestError, match=r"Engine\.from_tools\(tools\)"):
        ShortlistMiddleware(tools[:-1], engine=engine)


def test_what_is_decided_is_recorded_under_the_thread(tools, engine):
    events: list[Event] = []
    recorder = Recorder(events.append)
    middleware = ShortlistMiddleware(tools, engine=engine, k=3, events=recorder)
    script = [call(("create_issue", ISSUE), ("list_locks", {})), say("Filed.")]
    agent, _ = agent_of(script, middleware)
    ask(agent, "file an issue")
    # Calls run at once, so the turn after one may come before the other.
    assert sorted(event.kind for event in events[1:]) == ["call", "call", "turn"]
    assert {event.session for event in events} == {"t1"}
    turn = events[0]
    assert turn.head_tokens > 500
    assert set(turn.levels) == set(turn.active)
    assert {event.status for event in events if event.kind == "call"} == {"passed", "promoted"}
    assert [event.called for event in events if event.kind == "turn"][1:] == ["github/create_issue"]


def test_a_quarantine_counts_from_the_next_step(tools):
    engine = Engine.from_tools(tools, tiers=["lexical"])
    middleware = ShortlistMiddleware(tools, engine=engine, k=5)

    class Quarantining(ScriptedModel):
        def _generate(self, *given: Any, **more: Any) -> Any:
            engine.quarantine({"github/create_issue": "it reads like orders"})
            return super()._generate(*given, **more)

    model = Quarantining(script=[call(("nothing", {})), say("Oh.")])
    agent, _ = agent_of([], middleware, model=model)
    ask(agent, "file an issue")
    assert "create_issue" in model.offered[0]
    assert "create_issue" not in model.offered[1]
    assert "create_issue:" not in model.read[1][0].text


def test_without_langchain_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "shortlist.integrations.langchain")
    monkeypatch.setitem(sys.modules, "langchain.agents.middleware", None)
    with pytest.raises(MissingExtraError, match=r"\[langchain\]"):
        importlib.import_module("shortlist.integrations.langchain")


def test_a_catalog_keeps_what_the_gate_needs(tools):
    found = {one.id: one for one in Catalog(tools)}["filesystem/delete_path"]
    assert (found.name, found.server) == ("delete_path", "filesystem")
    assert found.annotations["destructiveHint"] is True
    plain = StructuredTool.from_function(lambda a: a, name="plain", description="Plain.")
    assert Catalog([plain])[0].server is None
