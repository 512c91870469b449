"""A real agent of LangChain over sixty tools, with a scripted model."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from shortlist import Engine, Tool
from shortlist.errors import MissingExtraError, RequestError
from shortlist.gating import Gate, Rule, State, after, requires_scope
from shortlist.integrations.langchain import ShortlistMiddleware, catalog_of
from shortlist.session import Event, Recorder

from .conftest import ScriptedModel, call, say

ISSUE = {"owner": "acme", "repo": "shop", "title": "Prices are wrong"}
IN_THREAD = {"configurable": {"thread_id": "t1"}}


def agent_of(script: list[Any], middleware: ShortlistMiddleware, **given: Any) -> Any:
    model = given.pop("model", None) or ScriptedModel(script=script)
    agent = create_agent(
        model,
        tools=given.pop("others", []),
        middleware=[middleware],
        checkpointer=InMemorySaver(),
        **given,
    )
    return agent, model


def ask(agent: Any, text: str, config: Any = None) -> list[Any]:
    return agent.invoke({"messages": [HumanMessage(text)]}, config or IN_THREAD)["messages"]


def answers(messages: list[Any]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def test_a_turn_offers_what_it_needs_and_the_call_runs(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine, k=5)
    agent, model = agent_of([call(("create_issue", ISSUE)), say("Filed.")], middleware)
    messages = ask(agent, "file an issue that prices are wrong")
    assert calls == [("create_issue", ISSUE)]
    assert messages[-1].text == "Filed."
    assert "create_issue" in model.offered[0]
    assert len(model.offered[0]) <= 5
    assert len(tools) == 60


def test_what_is_offered_only_grows_at_its_end(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=4)
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
        assert now[: len(before)] == before
    assert "describe_table" in model.offered[2]
    assert middleware.session("t1").state.called == (
        "github/create_issue",
        "database/describe_table",
    )


def test_a_follow_up_finds_from_what_was_said(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=3)
    agent, model = agent_of([say("Shall I merge it?"), say("Done.")], middleware)
    ask(agent, "merge the pull request with the new cart")
    assert "merge_pull_request" in model.offered[0]
    ask(agent, "yes, do that")
    said = middleware.session("t1").conversation
    assert [one.role for one in said.messages] == ["user", "assistant", "user"]
    assert "merge_pull_request" in model.offered[1]


def test_a_tool_that_was_not_offered_is_promoted_with_its_schema(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2)
    script = [
        call(("create_backup", {})),
        call(("create_backup", {"connection": "shop"})),
        say("Backed up."),
    ]
    agent, model = agent_of(script, middleware)
    messages = ask(agent, "file an issue that prices are wrong")
    assert "create_backup" not in model.offered[0]
    first, second = answers(messages)
    told = json.loads(first.content)
    assert first.status == "error"
    assert told["error"] == "tool_not_available"
    assert told["status"] == "promoted"
    assert told["input_schema"] == engine.catalog.get("database/create_backup").input_schema
    assert model.offered[1][: len(model.offered[0])] == model.offered[0]
    assert "create_backup" in model.offered[1]
    assert second.status == "success"
    assert [name for name, _ in calls] == ["create_backup"]


def test_a_tool_held_back_is_refused_with_its_reason_and_never_told_of(tools, calls):
    gate = Gate([Rule(requires_scope("db:admin"), tools=["database/*_backup"])])
    engine = Engine.from_tools(catalog_of(tools), tiers=["lexical"], gate=gate)
    middleware = ShortlistMiddleware(
        tools, engine=engine, state=lambda context: State(frozenset(context["scopes"]))
    )
    backup = ("create_backup", {"connection": "shop"})
    script = [call(backup), say("I may not."), say("Now?"), call(backup), say("Done.")]
    agent, model = agent_of(script, middleware)

    def asked(text: str, *scopes: str) -> list[Any]:
        given = {"messages": [HumanMessage(text)]}
        return agent.invoke(given, IN_THREAD, context={"scopes": scopes})["messages"]

    (refused,) = answers(asked("back up the database"))
    told = json.loads(refused.content)
    assert (told["status"], told["kind"]) == ("held_back", "scope")
    assert "db:admin" in told["reason"]
    assert calls == []
    assert "create_backup" not in str(model.read[0])
    assert not {"create_backup", "restore_backup"} & set(model.offered[0])
    asked("and restore it?", "other")
    messages = asked("back up the database", "db:admin")
    assert answers(messages)[-1].status == "success"
    assert "create_backup" in model.offered[3]
    assert calls == [backup]


def test_a_precondition_is_met_by_a_call_of_this_conversation(tools):
    gate = Gate([Rule(after("create_backup"), tools=["apply_migrations"])])
    engine = Engine.from_tools(catalog_of(tools), tiers=["lexical"], gate=gate)
    middleware = ShortlistMiddleware(tools, engine=engine)
    migrate = ("apply_migrations", {"connection": "shop"})
    script = [
        call(migrate),
        call(("create_backup", {})),
        call(("create_backup", {})),
        say("Backed up."),
        call(migrate),
        call(migrate),
        say("Migrated."),
    ]
    agent, _ = agent_of(script, middleware)
    messages = ask(agent, "apply the migrations")
    refused = json.loads(answers(messages)[0].content)
    assert refused["unlocked_by"] == ["create_backup"]
    messages = ask(agent, "apply the migrations now")
    assert answers(messages)[-1].status == "success"


def test_an_unknown_name_gets_the_nearest(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    agent, _ = agent_of([call(("create_isue", ISSUE)), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    told = json.loads(answer.content)
    assert told["status"] == "unknown"
    assert "create_issue" in told["nearest"]
    assert calls == []


def test_wrong_arguments_are_told_so_that_they_can_be_mended(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    wrong = {"owner": "acme", "repo": "shop", "title": 7}
    agent, _ = agent_of([call(("create_issue", wrong)), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    told = json.loads(answer.content)
    assert told["error"] == "invalid_arguments"
    assert told["problems"] == [{"path": "/title", "expected": "string", "got": "7"}]
    assert answer.status == "error"
    assert calls == []


def test_parallel_calls_are_each_decided(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    several = [("create_issue", {**ISSUE, "title": str(n)}) for n in range(8)]
    script = [call(*several, ("nothing_like_it", {}), ("list_locks", {})), say("Done.")]
    agent, _ = agent_of(script, middleware)
    told = answers(ask(agent, "file eight issues"))
    assert sorted(arguments["title"] for _, arguments in calls) == list("01234567")
    assert [message.status for message in told] == ["success"] * 8 + ["error"] * 2
    assert json.loads(told[8].content)["status"] == "unknown"
    assert middleware.session("t1").state.called == ("github/create_issue",)


def test_no_parallel_call_is_forgotten(tools, engine):
    names = ["list_locks", "list_backups", "list_roles", "list_slow_queries", "list_tables"]
    middleware = ShortlistMiddleware(tools, engine=engine, always=names)
    agent, _ = agent_of([call(*((name, {}) for name in names)), say("Done.")], middleware)
    assert {one.status for one in answers(ask(agent, "look around"))} == {"success"}
    assert set(middleware.session("t1").state.called) == {f"database/{name}" for name in names}


def test_asynchronously_as_well(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine, k=5)

    async def conversation(thread: str, title: str) -> list[Any]:
        issue = ("create_issue", {**ISSUE, "title": title})
        script = [call(issue, ("create_isue", {})), say("Filed.")]
        agent, _ = agent_of(script, middleware)
        config = {"configurable": {"thread_id": thread}}
        given = {"messages": [HumanMessage("file an issue that prices are wrong")]}
        return (await agent.ainvoke(given, config))["messages"]

    async def several() -> list[list[Any]]:
        return await asyncio.gather(*(conversation(f"t{n}", str(n)) for n in range(5)))

    for messages in asyncio.run(several()):
        assert [message.status for message in answers(messages)] == ["success", "error"]
    assert sorted(arguments["title"] for _, arguments in calls) == list("01234")
    assert all(middleware.session(f"t{n}") is not None for n in range(5))


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
    assert "create_backup" in systems[0].text


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
    engine = Engine.from_tools(catalog_of(few), tiers=["lexical"])
    middleware = ShortlistMiddleware(few, engine=engine)
    agent, model = agent_of([call(("create_pull_request", {})), say("Hm.")], middleware)
    (answer,) = answers(ask(agent, "hello"))
    assert model.offered[0] == [tool.name for tool in few]
    assert not isinstance(model.read[0][0], SystemMessage)
    assert json.loads(answer.content)["status"] == "invalid"


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
    assert model.offered[0][0] == "list_locks"


def test_without_a_thread_a_conversation_is_known_by_its_first_message(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2)
    model = ScriptedModel(script=[say("Filed."), say("None."), say("Hm.")])
    agent = create_agent(model, middleware=[middleware])
    first = agent.invoke({"messages": [HumanMessage("file an issue")]})["messages"]
    agent.invoke({"messages": [*first, HumanMessage("describe a table of the database")]})
    agent.invoke({"messages": [HumanMessage("describe a table of the database")]})
    assert model.offered[1][:2] == model.offered[0]
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
    assert turns == [len(model.offered[0])]
    assert middleware.session("t1").to_dict()["turn"] == 1


def test_a_call_by_id_runs_as_well(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    script = [call(("github/create_issue", ISSUE)), say("Filed.")]
    agent, _ = agent_of(script, middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    assert (answer.status, answer.name) == ("success", "create_issue")
    assert calls == [("create_issue", ISSUE)]


def test_a_tool_the_agent_cannot_run_is_never_offered(tools):
    engine = Engine.from_tools(catalog_of(tools), tiers=["lexical"])
    middleware = ShortlistMiddleware(tools, engine=engine)
    engine.update([*engine.catalog, Tool("file_issue", "forge", "File an issue.")])
    agent, model = agent_of([call(("file_issue", {})), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    assert json.loads(answer.content)["kind"] == "not_allowed"
    assert "file_issue" not in model.offered[0]
    assert "file_issue" not in model.read[0][0].text


def test_two_tools_of_one_name_are_refused(tools, engine):
    with pytest.raises(RequestError, match="two are named"):
        ShortlistMiddleware([*tools, tools[0]], engine=engine)


def test_an_engine_over_other_tools_is_refused(tools, engine):
    with pytest.raises(RequestError, match="catalog_of"):
        ShortlistMiddleware(tools[:-1], engine=engine)


def test_what_is_decided_is_recorded_under_the_thread(tools, engine):
    events: list[Event] = []
    middleware = ShortlistMiddleware(tools, engine=engine, k=3, events=Recorder(events.append))
    script = [call(("create_issue", ISSUE), ("list_locks", {})), say("Filed.")]
    agent, _ = agent_of(script, middleware)
    ask(agent, "file an issue")
    assert [event.kind for event in events] == ["turn", "prompt", "call", "call", "turn", "prompt"]
    assert {event.place.session for event in events} == {"t1"}
    turn, prompt = events[0], events[1]
    assert turn.tokens == prompt.phase2_tokens > 0
    assert prompt.phase1_tokens > 500
    assert set(prompt.details) == set(turn.active)
    assert {event.status for event in events[2:4]} == {"passed", "promoted"}
    assert events[4].called == "github/create_issue"


def test_a_quarantine_counts_from_the_next_step(tools):
    engine = Engine.from_tools(catalog_of(tools), tiers=["lexical"])
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
    with pytest.raises(MissingExtraError, match=r"shortlist\[langchain\]"):
        importlib.import_module("shortlist.integrations.langchain")


def test_a_catalog_keeps_what_the_gate_needs(tools):
    found = {one.id: one for one in catalog_of(tools)}["filesystem/delete_path"]
    assert (found.name, found.server) == ("delete_path", "filesystem")
    assert found.annotations["destructiveHint"] is True
    plain = StructuredTool.from_function(lambda a: a, name="plain", description="Plain.")
    assert catalog_of([plain])[0].server is None
