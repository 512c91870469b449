"""A real agent of LangChain that runs scripts over sixty tools, with a scripted model."""

from __future__ import annotations

import asyncio
import json

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from shortlist import Engine, State
from shortlist.codemode import Flow, Grant
from shortlist.integrations.langchain import code_tools

from .conftest import IN_THREAD, ISSUE, ScriptedModel, answers, ask, call, say

FILE = f"await github.create_issue(owner='acme', repo='shop', title={ISSUE['title']!r})"


def agent_of(script, tools, **options):
    model = ScriptedModel(script=script)
    given = options.pop("agent", {})
    made = code_tools(tools, **options)
    return create_agent(model, tools=made, checkpointer=InMemorySaver(), **given), model


def ran(code, tools, **options):
    """Status and content of the answer to one script."""
    agent, _ = agent_of([call(("run_code", {"code": code})), say("Done.")], tools, **options)
    [answer] = answers(ask(agent, "do it"))
    return answer.status, json.loads(answer.content)


def test_find_functions_then_one_script_over_two_servers(tools, calls):
    code = (
        "made = []\nfor title in ['a', 'b']:\n"
        "    made.append(await github.create_issue(owner='acme', repo='shop', title=title))\n"
        "await database.describe_table(table='orders')\nlen(made)"
    )
    script = [
        call(("find_functions", {"query": "file an issue"})),
        call(("run_code", {"code": code})),
        say("Filed."),
    ]
    agent, model = agent_of(script, tools)
    stubs, result = answers(ask(agent, "file two issues"))
    assert "async def create_issue(self,*,owner:str,repo:str,title:str" in stubs.content
    assert json.loads(result.content)["result"] == 2
    assert [name for name, _ in calls] == ["create_issue", "create_issue", "describe_table"]
    assert model.offered == [["find_functions", "run_code"]] * 3


def test_an_empty_query_for_functions_is_answered(tools):
    agent, _ = agent_of([call(("find_functions", {"query": " "})), say("Which?")], tools)
    [answer] = answers(ask(agent, "do it"))
    assert "The query is empty" in answer.content


def test_the_same_without_blocking_the_event_loop(tools, calls):
    agent, _ = agent_of([call(("run_code", {"code": FILE})), say("Filed.")], tools)
    asyncio.run(agent.ainvoke({"messages": [HumanMessage("file it")]}, IN_THREAD))
    assert calls == [("create_issue", ISSUE)]


def test_a_script_that_fails_says_what_to_mend(tools, calls):
    status, held = ran("await github.create_isue(title='t')", tools)
    assert (status, held["error"]["kind"]) == ("error", "type")
    assert "did you mean github.create_issue?" in held["error"]["message"]
    assert calls == []


def test_rules_grants_and_flows_hold(tools, calls):
    gate = {"rules": [{"tools": ["github/create_issue"], "needs": {"scope": "repo:write"}}]}
    engine = Engine.from_tools(tools, tiers=["lexical"], gate=gate)
    status, held = ran(FILE, tools, engine=engine)
    assert (status, calls) == ("error", [])
    assert "repo:write" in held["error"]["message"]

    def state(context):
        return State(scopes=context["scopes"])

    agent, _ = agent_of(
        [call(("run_code", {"code": FILE})), say("Filed.")], tools, engine=engine, state=state
    )
    context = {"scopes": {"repo:write"}}
    agent.invoke({"messages": [HumanMessage("file it")]}, IN_THREAD, context=context)
    assert calls == [("create_issue", ISSUE)]
    assert ran(FILE, tools, grants=[Grant("github/*", "deny")])[0] == "error"
    code = f"await database.describe_table(table='a')\n{FILE}"
    _, held = ran(code, tools, flows=[Flow("database", "github")])
    assert "may not be sent to 'github'" in held["error"]["message"]


def test_scripts_may_have_a_small_model(tools):
    status, held = ran("await extract('seven', int)", tools, extract=lambda prompt: "7")
    assert (status, held["result"]) == ("success", 7)
    [_, run] = code_tools(tools, extract="my-model")
    [_, plain] = code_tools(tools)
    assert "await extract(value, kind)" in run.description
    assert "extract" not in plain.description


@pytest.mark.parametrize("error", [ValueError("the disk is full"), KeyError("x")])
def test_a_tool_that_raises_raises_in_the_script(error):
    def fails() -> str:
        """Always fails."""
        raise error

    tools = [StructuredTool.from_function(fails, metadata={"server": "srv"})]
    code = "try:\n    await srv.fails()\nexcept RuntimeError as error:\n    x = str(error)\nx"
    assert ran(code, tools)[1]["result"].startswith("srv.fails: ")


def test_what_json_lacks_is_given_as_text():
    def odd() -> object:
        """Gives an odd object."""
        return complex(1, 2)

    tools = [StructuredTool.from_function(odd)]
    assert ran("await tools.odd()", tools)[1]["result"] == "(1+2j)"
