"""What surrounds a call of a script: approval, flows, records, effects, cancellation, budgets."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter

import pytest

from shortlist import Engine, Gate, Rule, Tool
from shortlist.codemode import CodeRunner, Flow, Grant, Limits, run_code
from shortlist.codemode.broker import Broker
from shortlist.codemode.script_names import ToolNames
from shortlist.errors import CatalogError, RequestError
from shortlist.gating import argument
from shortlist.loaders.counting import bundled_counter
from shortlist.tests.codemode.servers import ALLOWED, ENGINE, Sandbox, Servers, new_session

DELETE = "await issues.delete(number=7)"
ASYNCIO = "import asyncio\n"


def ran(code, servers=None, session=None, **options):
    return Sandbox.run(session or new_session(), code, (servers or Servers()).call, **options)


@pytest.mark.parametrize(("consents", "calls"), [(True, 1), (False, 0)])
def test_a_destructive_tool_asks_and_shows_the_call_and_the_script(consents, calls):
    asked, servers = [], Servers()

    async def approve(request):
        asked.append((request.tool.id, dict(request.arguments), request.code))
        return consents

    result = ran(DELETE, servers, approve=approve)
    assert asked == [("issues/delete", {"number": 7}, DELETE)]
    assert len(servers.calls) == calls
    assert result.ok is consents


@pytest.mark.parametrize("status", ["denied", "promoted"])
def test_what_changes_while_a_person_is_asked_is_not_called(status):
    servers = Servers()
    engine = Engine.from_tools(ENGINE.catalog, tiers=["lexical"])

    async def change_and_approve(_request):
        if status == "denied":
            engine.quarantine({"issues/delete": "under review"})
        else:
            delete = engine.catalog.get("issues/delete").to_dict()
            engine.replace([Tool.from_dict({**delete, "description": "Deletes all."})])
        return True

    session = engine.session(must_offer=False)
    result = ran(DELETE, servers, session, approve=change_and_approve)
    assert servers.calls == []
    assert [(call.status, call.may_have_changed) for call in result.calls] == [(status, False)]
    assert "issues.delete: issues/delete " in result.error.message


def test_a_wrong_name_is_answered_after_a_tool_was_added():
    engine = Engine.from_tools(ENGINE.catalog, tiers=["lexical"])
    names = ToolNames(engine.catalog)
    broker = Broker(engine.session(), names, Servers().call, code="", call_limit=1)
    engine.replace([*engine.catalog, Tool("added", "issues")])
    assert broker.explain_unknown("issues", "creat", "").endswith("did you mean issues.create?")
    # The script began before it was added.
    assert "did you mean" not in broker.explain_unknown("issues", "added", "")


@pytest.mark.parametrize(
    ("grant", "passes"),
    [
        (Grant("issues/delete"), True),
        (Grant("issues/*"), False),
        (Grant("issues/delete", "deny"), False),
        (Grant("issues/delete", "ask"), False),
        (Grant("Issues/Delete"), False),
        (Grant("Issues/Del*", "deny"), False),
        (Grant("Issues/Delete", "ask"), False),
    ],
)
def test_only_a_grant_by_name_spares_a_destructive_tool_the_question(grant, passes):
    servers = Servers()
    assert ran(DELETE, servers, grants=[grant]).ok is passes
    assert bool(servers.calls) is passes


def test_a_grant_counts_its_calls():
    code = "for i in range(5):\n    await issues.create(title=str(i))"
    servers = Servers()
    result = ran(code, servers, grants=[Grant("issues/create", count=3)])
    assert len(servers.calls) == 3
    assert "needs a person's approval" in result.error.message


def test_a_count_of_a_glob_holds_for_each_tool():
    code = "for i in range(3):\n    await issues.create(title='t')\n    await issues.list_()"
    servers = Servers()
    result = ran(code, servers, grants=[Grant("issues/*", count=2)])
    assert len(servers.calls) == 4
    assert "issues.create: needs a person's approval" in result.error.message


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_what_denies_or_asks_ignores_letter_case(decision):
    servers = Servers()
    code = "await issues.create(title='t')"
    assert not ran(code, servers, grants=[Grant("Issues/C*", decision), Grant("issues/*")]).ok
    assert not servers.calls


def test_what_allows_counts_letter_case():
    grants = [Grant("Issues/*", "allow", 1)]
    servers = Servers()
    assert ran("for i in range(3):\n    await issues.create(title='t')", servers, grants=grants).ok
    assert len(servers.calls) == 3


def test_a_flow_ignores_letter_case():
    flows = [Flow("LOGS", "We*")]
    servers = Servers()
    result = ran("x = await logs.count_lines()\nawait web.post(text=x)", servers, flows=flows)
    assert "may not be sent to 'web'" in result.error.message


@pytest.mark.parametrize(
    "make", [lambda: Grant(" "), lambda: Flow("logs", ""), lambda: Flow(3, "a")]
)
def test_what_is_no_glob_is_refused(make):
    with pytest.raises(RequestError, match="is no pattern"):
        make()


@pytest.mark.parametrize("wrong", [{"decision": "yes"}, {"count": 0}])
def test_a_wrong_grant_is_refused(wrong):
    with pytest.raises(RequestError, match="issues"):
        Grant("issues/*", **wrong)


def test_what_was_read_from_one_server_is_not_sent_to_another():
    flows = [Flow("logs", "web")]
    servers = Servers()
    result = ran("x = await logs.count_lines()\nawait web.post(text=x)", servers, flows=flows)
    assert "data from 'logs' may not be sent to 'web'" in result.error.message
    assert [name for name, _ in servers.calls] == ["logs/count-lines"]
    assert ran("await web.post(text='a')\nawait logs.count_lines()", flows=flows).ok
    assert ran("await issues.list_()\nawait web.post(text='a')", flows=flows).ok


def test_every_call_is_recorded():
    result = ran(
        "await logs.count_lines()\n"
        "try:\n    await issues.fails()\nexcept RuntimeError:\n    pass\n"
        "await issues.create(title='t')"
    )
    assert [(one.tool_id, one.ok, one.status, one.may_have_changed) for one in result.calls] == [
        ("logs/count-lines", True, "ok", False),
        ("issues/fails", False, "tool_error", True),
        ("issues/create", True, "ok", True),
    ]
    assert result.calls[0].result_chars == len('"500"')
    assert result.calls[2].arguments == {"title": "t"}
    assert all(one.ms > 0 for one in result.calls)


def test_an_exception_of_the_callers_function_does_not_reach_the_script(caplog):
    async def call(_tool, _arguments):
        raise failure

    code = (
        "try:\n    await logs.count_lines()\nexcept RuntimeError as error:\n    x = str(error)\nx"
    )
    for failure in (OSError("/home/ann/key: secret"), CatalogError("/home/ann/key: secret")):
        caplog.clear()
        result = asyncio.run(run_code(new_session(), code, call))
        assert result.value == f"logs.count_lines: the call failed ({type(failure).__name__})"
        assert [record.status for record in result.calls] == ["server_error"]
        assert "secret" in caplog.text


def test_an_exception_of_the_function_that_asks_does_not_reach_the_script(caplog):
    async def approve(_request):
        raise OSError("/home/ann/key: secret")

    code = f"try:\n    {DELETE}\nexcept PermissionError as error:\n    x = str(error)\nx"
    result = ran(code, approve=approve)
    assert result.value == "issues.delete: the question failed (OSError)"
    assert [record.status for record in result.calls] == ["unapproved"]
    assert "secret" in caplog.text


def test_effects_before_a_failure_are_reported():
    held = ran("await issues.create(title='kept')\nawait logs.read()\n[][1]").to_dict()
    assert held["error"]["effects"] == ['issues/create {"title": "kept"}']
    assert held["error"]["note"].startswith("calls that may have changed something")


def test_half_a_character_in_a_result_does_not_end_the_script():
    session = Engine.from_tools([Tool("cut", "srv")], tiers=["lexical"]).session()

    async def call(tool, arguments):
        return {"text": "caf\u00e9 \ud83d"}

    result = asyncio.run(run_code(session, "(await srv.cut())['text']", call))
    assert result.value == "caf\u00e9 ?"


@pytest.mark.parametrize("required", [["result"], []])
def test_a_value_that_an_sdk_wrapped_is_the_value(required):
    """Seen in use: scripts took the object around a text for the text, and read it wrongly."""
    output = {"type": "object", "properties": {"result": {"type": "string"}}, "required": required}
    read = Tool("read", "srv", output_schema=output)
    session = Engine.from_tools([read], tiers=["lexical"]).session()

    async def call(tool, arguments):
        return {"result": "one two"}

    code = "(await srv.read()).split()[1]" if required else "(await srv.read())['result']"
    result = asyncio.run(run_code(session, code, call))
    assert result.error is None, result.error
    assert result.value == ("two" if required else "one two")


def test_many_calls_are_summed_up():
    code = "for i in range(30):\n    await logs.count_lines()"
    [row] = ran(code).to_dict()["calls"]
    assert (row["tool"], row["ok"], row["count"]) == ("logs/count-lines", True, 30)


def test_successful_calls_unlock_what_depends_on_them():
    tools = [Tool("first", "srv"), Tool("second", "srv"), Tool("bad", "srv")]
    gate = {"rules": [{"tools": ["srv/second"], "needs": {"after": "srv/first"}}]}
    session = Engine.from_tools(tools, tiers=["lexical"], gate=gate).session()

    async def call(tool, arguments):
        return tool.name

    assert not asyncio.run(run_code(session, "await srv.second()", call)).ok
    assert asyncio.run(run_code(session, "await srv.first()", call)).ok
    assert asyncio.run(run_code(session, "await srv.second()", call)).value == "second"


def test_a_call_in_a_script_unlocks_a_server_without_a_permitted_tool():
    tools = [Tool("first", "one"), Tool("second", "two")]
    gate = {"rules": [{"tools": ["two/*"], "needs": {"after": "one/first"}}]}
    session = Engine.from_tools(tools, tiers=["lexical"], gate=gate).session()

    async def call(tool, arguments):
        return tool.name

    # The name of the function is a text: the check before the start refuses what is denied then.
    code = "await one.first()\nawait eval('two.second()')"
    assert asyncio.run(run_code(session, code, call)).value == "second"


def test_a_tool_that_the_model_has_not_read_is_called_and_still_counts_as_unread():
    session = ENGINE.session("openai", k=1, pass_through=0, pool_tokens=0, allowed=ALLOWED)
    session.turn("count the lines of the log")
    assert session.level("issues/create") is None
    result = ran("await issues.create(title='t')", session=session)
    assert result.ok
    assert session.level("issues/create") is None


def test_cancelling_stops_the_script_and_its_calls():
    servers = Servers()

    async def main():
        async with CodeRunner() as runner:
            code = "while True:\n    await issues.wait(seconds=30)"
            running = asyncio.ensure_future(runner.run(new_session(), code, servers.call))
            while not servers.waiting:
                await asyncio.sleep(0.01)
            start = perf_counter()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert perf_counter() - start < 20
            assert servers.stopped == 1
            return await runner.run(new_session(), "1", servers.call)

    assert asyncio.run(main()).value == 1


def test_a_call_that_nobody_awaits_does_not_outlive_the_script():
    servers = Servers()
    code = ASYNCIO + "x = [issues.wait(seconds=30)]\nawait logs.count_lines()"
    result = ran(code, servers)
    assert result.value is None
    assert "1 of issues.wait were cancelled; write `await` before each" in result.error.message
    assert servers.waiting == servers.stopped == 1


def test_the_whole_time_is_limited_too():
    servers = Servers()
    result = ran("await issues.wait(seconds=30)", servers, limits=Limits(total_seconds=4))
    assert result.error.kind == "limit"
    assert "longer than 4 seconds" in result.error.message
    assert servers.stopped == 1
    assert [(one.tool_id, one.status) for one in result.calls] == [("issues/wait", "cancelled")]


def test_a_sleep_is_not_cut_short_and_counts_as_time():
    limits = Limits(total_seconds=20)
    result = ran(ASYNCIO + "await asyncio.sleep(60)\n'done'", limits=limits)
    assert result.error.message == "the script slept longer than 20 seconds"
    assert result.error.line == 2


def test_a_result_inside_is_whole_and_what_leaves_is_cut():
    result = ran("page = await logs.read(limit=500)\nprint('y ' * 5000)\npage")
    assert len(result.value["entries"]) == 500
    held = result.to_dict(tokens=300)
    assert "more characters of the result are left out" in held["result"]
    assert "more characters printed are left out" in held["output"]
    assert bundled_counter().count(json.dumps(held)) < 600
    assert result.to_dict()["result"] == result.value


def test_eight_scripts_wait_at_the_same_time():
    servers = Servers()

    async def main():
        async with CodeRunner() as runner:
            code = "await issues.wait(seconds=600)"
            runs = [
                asyncio.ensure_future(runner.run(new_session(), code, servers.call))
                for _ in range(8)
            ]
            async with asyncio.timeout(60):
                while servers.waiting < 8:
                    await asyncio.sleep(0.01)
            for run in runs:
                run.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    asyncio.run(main())
    assert servers.stopped == 8


def test_limits_are_above_zero():
    with pytest.raises(RequestError, match=r"limits\.seconds"):
        Limits(seconds=0)
    with pytest.raises(RequestError, match="code: must be a text"):
        ran(b"1")


def approval_session(*rules):
    return Engine.from_tools(ENGINE.catalog, gate=Gate(rules), tiers=["lexical"]).session()


def test_a_script_that_nobody_can_approve_does_not_start():
    code = "await issues.create(title='a')\nif 1 > 2:\n    await issues.delete(number=7)"
    servers = Servers()
    result = ran(code, servers)
    assert (result.error.kind, result.error.line, servers.calls) == ("type", 3, [])
    assert (
        "issues.delete: needs a person's approval, and nobody can be asked" in result.error.message
    )
    # A name in a text is no call.
    assert ran("'issues.delete'", servers).ok
    assert ran(code, servers, approve=lambda request: False).ok


def test_a_rule_asks_in_a_script_by_its_arguments():
    asked, servers = [], Servers()
    session = approval_session(
        Rule(tools="issues/create", when=argument("title", not_matches="ok*"), approval=True),
    )

    def approve(request):
        asked.append((request.arguments["title"], request.rules))
        return request.arguments["title"] == "yes"

    code = "await issues.create(title='ok 1')\nawait issues.create(title={!r})"
    options = {"grants": [Grant("issues/create")], "approve": approve}
    assert ran(code.format("yes"), servers, session, **options).ok
    refused = ran(code.format("no"), servers, session, **options)
    assert "issues.create: the call was not approved" in refused.error.message
    assert [title for title, _ in asked] == ["yes", "no"]
    assert asked[0][1] == ("for tools issues/create",)
    assert len(servers.calls) == 3
    # Without a person, the first call is made: only some calls need approval.
    assert not ran(code.format("yes"), servers, session).ok
    assert len(servers.calls) == 4
    assert session.state.unknown == ()


def test_the_stub_of_a_function_says_that_it_asks():
    view = approval_session(Rule(tools="issues/create", approval=True)).view()
    tools = [view.catalog.get(f"issues/{name}") for name in ("create", "delete")]
    runner = CodeRunner()
    assert runner.stubs(view, tools).count("Each call needs a person's approval.") == 2
    allowed = runner.stubs(view, tools, [Grant("issues/delete"), Grant("issues/create")])
    assert allowed.count("Each call needs a person's approval.") == 1
