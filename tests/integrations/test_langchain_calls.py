"""Calls of the model: let go ahead, mended, or refused with the reason."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from langchain_core.messages import HumanMessage

from shortlist import Engine
from shortlist.gating import Gate, Rule, State, after, requires_scope
from shortlist.integrations.langchain import ShortlistMiddleware

from .conftest import IN_THREAD, ISSUE, agent_of, answers, ask, call, say


def test_a_tool_that_was_not_offered_is_promoted_with_its_schema(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine, k=2, pool="summaries")
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
    assert told["tool"] == "create_backup"
    assert told["message"].startswith("create_backup was not called: you had not seen")
    assert "database/" not in told["message"]
    assert told["input_schema"] == engine.catalog.get("database/create_backup").input_schema
    assert model.offered[1][: len(model.offered[0])] == model.offered[0]
    assert "create_backup" in model.offered[1]
    assert second.status == "success"
    assert [name for name, _ in calls] == ["create_backup"]


def test_a_tool_held_back_is_refused_with_its_reason_and_never_told_of(tools, calls):
    gate = Gate([Rule(requires_scope("db:admin"), tools=["database/*_backup"])])
    engine = Engine.from_tools(tools, tiers=["lexical"], gate=gate)
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
    assert (told["status"], told["kind"]) == ("denied", "scope")
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
    gate = Gate([Rule(after("database/create_backup"), tools=["apply_migrations"])])
    engine = Engine.from_tools(tools, tiers=["lexical"], gate=gate)
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
    # Every name in the answer is one that the model can call.
    assert "database/" not in answers(messages)[0].content
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


def test_an_answer_is_text_that_can_be_sent(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine)
    wrong = {**ISSUE, "labels": "\ud800 für später"}
    agent, _ = agent_of([call(("create_issue", wrong)), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    answer.content.encode("utf-8")
    assert "für später" in answer.content


def test_a_tool_of_a_line_is_called_through_call_tool(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    inner = {"tool": "database/create_backup", "arguments": {"connection": "shop"}}
    script = [call(("call_tool", inner)), say("Backed up.")]
    agent, model = agent_of(script, middleware)
    (answer,) = answers(ask(agent, "file an issue that prices are wrong"))
    assert "create_backup" not in model.offered[0]
    assert "create_backup(" in model.read[0][0].text
    assert calls == [("create_backup", {"connection": "shop"})]
    assert (answer.status, answer.name) == ("success", "create_backup")
    assert middleware.session("t1").state.called == ("database/create_backup",)


def test_it_offers_what_the_session_does(tools, engine):
    """With as many tokens: the definitions of a few, and lines of the others."""
    middleware = ShortlistMiddleware(tools, engine=engine)
    requests = [
        "file an issue that prices are wrong",
        "describe the columns of a table in the database",
        "which pull requests are open?",
        "search the code for a name",
        "which files were changed last?",
    ]
    agent, model = agent_of([say("Done.") for _ in requests], middleware)
    session = engine.session(format="openai")
    for request in requests:
        ask(agent, request)
        turn = session.turn(request)
        session.answered("Done.")
        names = [tool["function"]["name"].rpartition("__")[2] for tool in turn.tools]
        assert model.offered[-1] == ["search_tools", *names]
        assert model.read[-1][0].text == turn.system
    assert len(model.offered[-1]) <= 17
    assert middleware.session("t1").shown.prefix_tokens == session.shown.prefix_tokens


def test_lines_of_a_turn_are_sent_last_and_not_kept(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine, pool_tokens=900, in_use_tokens=400)
    agent, model = agent_of([say("Filed."), say("Yes.")], middleware)
    ask(agent, "file an issue that prices are wrong")
    messages = ask(agent, "which tables are there?")
    for read, request in zip(model.read, ("file an issue", "which tables"), strict=True):
        assert read[-2].text.startswith(request)
        assert "(" in read[-1].text
    assert [message.type for message in messages] == ["human", "ai", "human", "ai"]


def test_parallel_calls_are_each_decided(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine, pool="summaries")
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


def test_a_call_by_id_runs_as_well(tools, engine, calls):
    middleware = ShortlistMiddleware(tools, engine=engine)
    script = [call(("github/create_issue", ISSUE)), say("Filed.")]
    agent, _ = agent_of(script, middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    assert (answer.status, answer.name) == ("success", "create_issue")
    assert calls == [("create_issue", ISSUE)]
