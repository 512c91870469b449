"""Calls of the model: let go ahead, mended, or refused with the reason."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from shortlist import Engine
from shortlist.gating import Gate, Rule, State, after, requires_scope
from shortlist.integrations.langchain import ShortlistMiddleware

from .conftest import IN_THREAD, ISSUE, agent_of, answers, ask, call, say


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


def test_an_answer_is_text_that_can_be_sent(tools, engine):
    middleware = ShortlistMiddleware(tools, engine=engine)
    wrong = {**ISSUE, "labels": "\ud800 für später"}
    agent, _ = agent_of([call(("create_issue", wrong)), say("Oh.")], middleware)
    (answer,) = answers(ask(agent, "file an issue"))
    answer.content.encode("utf-8")
    assert "für später" in answer.content


def test_it_offers_what_the_session_does(tools, engine):
    """The definitions of a few, and topics of the servers in the system message."""
    middleware = ShortlistMiddleware(tools, engine=engine)
    settings = {"k": 12, "list_tokens": 3_000, "pool_tokens": 400}
    requests = [
        "file an issue that prices are wrong",
        "describe the columns of a table in the database",
        "which pull requests are open?",
        "search the code for a name",
        "which files were changed last?",
    ]
    agent, model = agent_of([say("Done.") for _ in requests], middleware)
    session = engine.session("openai", tools="list", **settings)
    for request in requests:
        ask(agent, request)
        session.turn(request)
        session.answered("Done.")
        names = [tool["function"]["name"].rpartition("__")[2] for tool in session.tools]
        assert model.offered[-1] == names
        assert model.read[-1][0].text == session.system
    assert len(model.offered[-1]) <= 17


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


@pytest.mark.parametrize("name", ["github/create_issue", "github__create_issue"])
def test_a_call_by_another_name_gives_the_tool_and_does_not_run(tools, engine, calls, name):
    middleware = ShortlistMiddleware(tools, engine=engine, k=1)
    script = [call((name, ISSUE)), call(("create_issue", ISSUE)), say("Filed.")]
    agent, model = agent_of(script, middleware)
    refused, answer = answers(ask(agent, "describe a table of the database"))
    assert (refused.status, json.loads(refused.content)["tool"]) == ("error", "create_issue")
    assert "create_issue" in model.offered[1]
    assert (answer.status, calls) == ("success", [("create_issue", ISSUE)])


def test_a_setting_of_the_engine_comes_before_that_of_the_middleware(tools):
    engine = Engine.from_tools(tools, tiers=["lexical"], session={"k": 2, "pool_tokens": 2_000})
    agent, model = agent_of([say("Done.")], ShortlistMiddleware(tools, engine=engine))
    ask(agent, "file an issue that prices are wrong")
    assert len(model.offered[0]) <= 3
    assert "create_backup" in model.read[0][0].text
