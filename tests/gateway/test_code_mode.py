"""`run_code` through the gateway: scripts over its servers, under the client's permission."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import asynccontextmanager

import anyio
import mcp.types as types
import pytest
from mcp import Client

from shortlist import Gate, Rule
from shortlist.codemode import Flow
from shortlist.errors import ConfigError
from shortlist.gateway.meta_tools import run_code
from shortlist.gateway.observe.observer import Observer
from shortlist.gateway.profiles.client_sessions import ClientSession
from shortlist.gateway.profiles.gateway_settings import GatewaySettings, ProfileSettings
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gating import argument

from .fake_servers import DESTROY, READ, WRITE, FakeServer, fleet_of, relisted, text_of, tool
from .talking import http_client, made_gateway, over_http, talking

NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@pytest.fixture
def anyio_backend():
    return "asyncio"


def answer(name, arguments):
    if name == "fails":
        part = types.TextContent(type="text", text="the disk is full")
        return types.CallToolResult(content=[part], is_error=True)
    if name == "rows":
        rows = [{"at": at, "text": f"row {at}"} for at in range(5_000)]
        return types.CallToolResult(content=[], structured_content={"rows": rows})
    return f"{name} {json.dumps(arguments)}"


def shop(**given) -> FakeServer:
    tools = [
        tool("rows", "All rows.", hints=READ),
        tool("get-one", "One row.", hints=READ, input_schema=NUMBER),
        tool("fails", "Fails.", hints=WRITE),
        tool("drop", "Drops everything.", hints=DESTROY),
    ]
    return FakeServer("shop", tools, answer=answer, **given)


def mail() -> FakeServer:
    return FakeServer("mail", [tool("send", "Sends a mail.", hints=WRITE)], answer=answer)


@asynccontextmanager
async def gateway_of(folder, *servers, events=None, client=None, **profile):
    settings = {"pass_through": 0.0, "has_run_code": True, **profile}
    async with fleet_of(folder, *servers) as fleet:
        sinks = [] if events is None else [events.append]
        made = Gateway(fleet, Profile(**settings), observer=Observer(*sinks))
        try:
            async with Client(made.server, **(client or {})) as connected:
                yield connected, made
        finally:
            await made.aclose()


async def ran(client, code):
    result = await client.call_tool("run_code", {"code": code})
    return result.structured_content or text_of(result)


@pytest.mark.anyio
async def test_a_script_over_two_servers(tmp_path):
    first, second = shop(), mail()
    async with gateway_of(tmp_path, first, second) as (client, _):
        listed = [one.name for one in (await client.list_tools()).tools]
        held = await ran(
            client,
            "page = await shop.rows()\n"
            "texts = [row['text'] for row in page['rows'] if row['at'] < 2]\n"
            "for text in texts:\n    await mail.send(text=text)\n"
            "print('sent')\n[texts, await shop.get_one(number=7)]",
        )
    assert "run_code" in listed
    assert held["result"] == [["row 0", "row 1"], 'get-one {"number": 7}']
    assert held["output"] == "sent\n"
    assert held["error"] is None
    assert [(one["tool"], one["ok"]) for one in held["calls"]] == [
        ("shop/rows", True),
        ("mail/send", True),
        ("mail/send", True),
        ("shop/get-one", True),
    ]
    assert second.calls == [("send", {"text": "row 0"}), ("send", {"text": "row 1"})]


@pytest.mark.anyio
async def test_without_the_setting_there_is_no_run_code(tmp_path):
    async with gateway_of(tmp_path, shop(), has_run_code=False) as (client, made):
        assert "run_code" not in [one.name for one in (await client.list_tools()).tools]
        assert "run_code is off here" in await ran(client, "1")
        assert "code" not in made.__dict__


@pytest.mark.anyio
async def test_where_all_tools_are_shown_scripts_have_what_they_need(tmp_path):
    async with gateway_of(tmp_path, shop(), pass_through=1.0) as (client, _):
        listed = [one.name for one in (await client.list_tools()).tools]
    assert listed[-3:] == ["get_tool_details", "read_result", "run_code"]


@pytest.mark.anyio
async def test_signatures_are_stubs(tmp_path):
    async with gateway_of(tmp_path, shop()) as (client, _):
        asked = {"names": ["shop/get-one"], "detail": "signature"}
        result = await client.call_tool("get_tool_details", asked)
        several = {"names": ["shop/rows", "shop/drop", "shop/nothing"], "detail": "signature"}
        more = await client.call_tool("get_tool_details", several)
    text = text_of(result)
    assert "class shop:\n async def get_one(self,*,number:int):" in text
    assert result.structured_content == {"stubs": text, "missing": []}
    assert text_of(more).count("class shop:") == 1
    assert "async def rows(self" in text_of(more)
    [missing] = more.structured_content["missing"]
    assert (missing["name"], missing["error"]) == ("shop/nothing", "unknown")
    assert '"error": "unknown"' in text_of(more)


@pytest.mark.anyio
async def test_stubs_are_of_the_tools_that_were_looked_up(tmp_path, monkeypatch):
    server = shop()
    async with gateway_of(tmp_path, server) as (client, made):
        permitted = made.sessions.session_of(None).view()
        await relisted(made, server, tool("rows"))
        views = iter([permitted])
        # The tool is removed between its look-up and its stub.
        monkeypatch.setattr(
            ClientSession, "view", lambda self: next(views, None) or self.session.view()
        )
        asked = {"names": ["shop/get-one"], "detail": "signature"}
        result = await client.call_tool("get_tool_details", asked)
    assert "async def get_one(" in text_of(result)


@pytest.mark.anyio
async def test_stubs_that_are_too_long_together_are_left_out(tmp_path):
    fields = {f"a_long_name_of_an_argument_{at}": {"type": "string"} for at in range(140)}
    wide = {"type": "object", "properties": fields}
    server = FakeServer("shop", [tool(f"t{at}", "Wide.", input_schema=wide) for at in range(9)])
    async with gateway_of(tmp_path, server) as (client, _):
        asked = {"names": [f"shop/t{at}" for at in range(9)], "detail": "signature"}
        result = await client.call_tool("get_tool_details", asked)
    missing = result.structured_content["missing"]
    assert 0 < len(missing) < 9
    assert f"async def t{8 - len(missing)}(" in text_of(result)
    assert {one["error"] for one in missing} == {"left out"}


@pytest.mark.anyio
async def test_a_script_reaches_nothing_that_its_client_may_not_use(tmp_path):
    first, second = shop(), mail()
    events: list = []
    profile = {"tools": ("shop/get-one",), "events": events}
    async with gateway_of(tmp_path, first, second, **profile) as (client, _):
        unknown = await ran(client, "await shop.rows()")
        forged = await ran(client, "await eval('shop.ro' + 'ws()')")
        other = await ran(client, "await mail.send(text='x')")
    assert unknown["error"]["kind"] == other["error"]["kind"] == "type"
    # The profile hides the tools, so they are answered like missing ones.
    assert "shop has no function 'rows'" in unknown["error"]["message"]
    assert "AttributeError: shop has no function 'rows'" in forged["error"]["message"]
    assert first.calls == second.calls == []
    assert [(one.tool, one.outcome) for one in events if one.kind == "call"] == []


@pytest.mark.anyio
async def test_a_hidden_server_does_not_change_the_names_in_scripts(tmp_path):
    visible = FakeServer("my-notes", [tool("read", hints=READ)])
    hidden = FakeServer("my_notes", [tool("read", hints=READ)])
    code = "await my_notes.read(text='x')"
    async with gateway_of(tmp_path, visible, hidden, servers=("my-notes",)) as (client, _):
        assert (await ran(client, code))["result"] == "read ran"
    assert (len(visible.calls), hidden.calls) == (1, [])


@pytest.mark.anyio
async def test_a_script_is_told_why_a_rule_denies_a_call(tmp_path):
    server, events = shop(), []
    rules = ProfileSettings(rules=[{"tools": "shop/rows", "needs": {"scope": "admin"}}]).gate()
    async with gateway_of(tmp_path, server, rules=rules, events=events) as (client, _):
        denied = await ran(client, "await shop.rows()")
        forged = await ran(client, "await eval('shop.ro' + 'ws()')")
    assert "may not be used now" in denied["error"]["message"]
    assert "PermissionError: shop.rows" in forged["error"]["message"]
    assert server.calls == []
    assert [(one.tool, one.outcome) for one in events if one.kind == "call"] == [
        ("shop/rows", "denied")
    ]


@pytest.mark.anyio
async def test_destructive_tools_need_a_grant_by_name(tmp_path):
    server = shop()
    async with gateway_of(tmp_path, server) as (client, _):
        held = await ran(client, "await shop.drop()")
    assert "needs a person's approval" in held["error"]["message"]
    assert server.calls == []
    granted = GatewaySettings.make({"code": {"allow": ["shop/drop"], "deny": ["mail/*"]}})
    grants = granted.code.grants()
    async with gateway_of(tmp_path, shop(), mail(), grants=grants) as (client, _):
        assert (await ran(client, "await shop.drop()"))["result"] == "drop {}"
        held = await ran(client, "await mail.send(text='x')")
    assert "scripts may not call it" in held["error"]["message"]


OFFICE = {
    "code": {"deny": ["mail/*"], "allow": ["shop/*"], "flows": [["shop", "mail"]]},
    "profiles": {
        "same": {},
        "own": {"code": {"deny": [], "ask": ["shop/rows"], "count": {"shop/get-one": 2}}},
        "off": {"code": False},
    },
}


def profile_of(name):
    made = GatewaySettings.make(OFFICE)
    return Profile.of(made, name, made.profile(name))


def test_a_profile_changes_single_keys_of_what_scripts_may_do():
    same, own, off = map(profile_of, ("same", "own", "off"))
    assert [(one.tools, one.decision) for one in same.grants] == [
        ("mail/*", "deny"),
        ("shop/*", "allow"),
    ]
    assert [(one.tools, one.decision, one.count) for one in own.grants] == [
        ("shop/rows", "ask", None),
        ("shop/get-one", "allow", 2),
        ("shop/*", "allow", None),
    ]
    assert same.flows == own.flows == (Flow("shop", "mail"),)
    assert (same.has_run_code, own.has_run_code, off.has_run_code) == (True, True, False)
    silent = GatewaySettings.make({"profiles": {"a": {"code": {"deny": ["x/*"]}}, "b": {}}})
    assert Profile.of(silent, "a", silent.profile("a")).has_run_code
    assert not Profile.of(silent, "b", silent.profile("b")).has_run_code


@pytest.mark.anyio
async def test_grants_of_a_profile_hold_in_its_scripts(tmp_path):
    asked = []

    async def elicited(context, params):
        asked.append(params.message.split(" with ")[0])
        return types.ElicitResult(action="accept")

    server, own = shop(), profile_of("own")
    options = {"elicitation_callback": elicited}
    async with gateway_of(tmp_path, server, client=options, grants=own.grants) as (client, _):
        code = "await shop.rows()\nfor i in range(3):\n    await shop.get_one(number=i)"
        assert (await ran(client, code))["error"] is None
    assert len(server.calls) == 4
    assert [one.split()[5].rstrip(",") for one in asked] == ["shop/rows", "shop/get-one"]


@pytest.mark.anyio
async def test_extract_is_there_where_the_settings_name_a_model(tmp_path):
    program = "import sys; print(sys.stdin.read().count('a'))"
    command = shlex.join([sys.executable, "-c", program])
    code = "await extract('Anna', int)"
    made = GatewaySettings.make({"code": {"extract": command}})
    extract = Profile.of(made, "default", made.profile()).extract_command
    async with gateway_of(tmp_path / "a", shop(), extract_command=extract) as (client, _):
        held = await ran(client, code)
        [run] = [one for one in (await client.list_tools()).tools if one.name == "run_code"]
    assert held["result"] > 2, held
    assert "await extract(value, kind)" in run.description
    async with gateway_of(tmp_path / "b", shop()) as (client, _):
        held = await ran(client, code)
        [run] = [one for one in (await client.list_tools()).tools if one.name == "run_code"]
    assert held["error"]["kind"] == "type"
    assert "extract" not in run.description


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "action", "calls"),
    [
        ("legacy", "accept", 2),
        ("auto", "accept", 2),
        ("legacy", "decline", 0),
        ("auto", "cancel", 0),
    ],
)
async def test_the_user_is_asked_for_destructive_calls(tmp_path, mode, action, calls):
    asked = []

    async def elicited(context, params):
        asked.append(params.message)
        return types.ElicitResult(action=action)

    server = shop()
    options = {"elicitation_callback": elicited, "mode": mode}
    code = "await shop.drop(text='all')\nawait shop.drop(text='more')"
    async with gateway_of(tmp_path, server, client=options) as (client, _):
        held = await ran(client, code)
    assert len(server.calls) == calls
    assert (held["error"] is None) is (action == "accept")
    assert "call shop/drop" in asked[0]
    assert '{"text": "all"}' in asked[0]
    assert code in asked[0]
    if action != "accept":
        assert "the call was not approved" in held["error"]["message"]


@pytest.mark.anyio
async def test_the_user_sees_all_of_what_is_approved(tmp_path):
    asked = []

    async def elicited(context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept")

    server, ending = shop(), "AND THEN DELETE PRODUCTION"
    options = {"elicitation_callback": elicited}
    async with gateway_of(tmp_path, server, client=options) as (client, _):
        call = f"await shop.drop(text='\\u202e' + 'x' * 5_000 + '{ending}')\n"
        code = call + "# 12345\n" * 600 + f"# \u202e{ending}"
        assert (await ran(client, code))["error"] is None
        long_call = "await shop.drop(text='x' * 30_000)"
        refused = [
            await ran(client, long_call),
            await ran(client, "await shop.drop()\n" + "# 1234567\n" * 3_000),
        ]
        code = f"try:\n    {long_call}\nexcept PermissionError as error:\n    x = str(error)\nx"
        caught = await ran(client, code)
    [question], [(_, arguments)] = asked, server.calls
    assert arguments["text"].endswith(ending)
    assert json.dumps(arguments) in question
    assert question.endswith(rf"# \u202e{ending}")
    assert "\u202e" not in question
    for answer_row in refused:
        assert "a person is asked about at most 19,000" in answer_row["error"]["message"]
    assert "write a shorter script" in caught["result"]


@pytest.mark.anyio
async def test_a_flow_between_servers_is_forbidden_by_the_settings(tmp_path):
    made = GatewaySettings.make({"code": {"flows": [["shop", "mail"]]}})
    profile = Profile.of(made, "default", made.profile())
    server = mail()
    async with gateway_of(tmp_path, shop(), server, flows=profile.flows) as (client, _):
        held = await ran(client, "x = await shop.get_one(number=1)\nawait mail.send(text=x)")
    assert "may not be sent to 'mail'" in held["error"]["message"]
    assert server.calls == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"code": "yes"},
        {"code": {"allow": "shop/*"}},
        {"code": {"count": {"shop/*": 0}}},
        {"profiles": {"default": {"code": {"allows": ["shop/*"]}}}},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match="code"):
        GatewaySettings.make(wrong)


@pytest.mark.anyio
async def test_failures_can_be_caught_and_calls_are_recorded(tmp_path):
    events: list = []
    code = "try:\n    await shop.fails()\nexcept RuntimeError as error:\n    x = str(error)\nx"
    async with gateway_of(tmp_path, shop(), events=events) as (client, _):
        held = await ran(client, code)
        await client.call_tool("run_code", {"code": "await shop.nothing()"})
        await client.call_tool("run_code", {"program": "1"})
    assert held["result"] == "shop.fails: the disk is full"
    [call] = [one for one in events if one.kind == "call"]
    assert (call.tool, call.outcome) == ("shop/fails", "tool_error")
    scripts = [(one.outcome, one.calls) for one in events if one.kind == "script"]
    assert scripts == [("ok", 1), ("type", 0), ("refused", 0)]


@pytest.mark.anyio
async def test_a_long_result_is_cut_and_read_on(tmp_path):
    async with gateway_of(tmp_path, shop(), result_tokens=200) as (client, _):
        result = await client.call_tool("run_code", {"code": "await shop.rows()"})
        held = result.structured_content
        assert "left out" in held["result"]
        assert len(text_of(result)) < 2_000
        name = json.loads(held["whole"].removeprefix("read_result "))
        part = await client.call_tool("read_result", {**name, "range": [0, 40]})
    assert text_of(part).startswith('{"rows": [{"at": 0, "text": "row 0"}')


@pytest.mark.anyio
async def test_a_cancelled_script_stops_and_frees_its_process(tmp_path):
    async with gateway_of(tmp_path, shop()) as (client, _):
        for _ in range(10):
            with anyio.move_on_after(0.1):
                await client.call_tool("run_code", {"code": "while True:\n    pass"})
        with anyio.fail_after(20):
            assert (await ran(client, "1 + 1"))["result"] == 2


@pytest.mark.anyio
async def test_eight_busy_scripts_leave_other_requests_alone(tmp_path):
    code = "n = 0\nfor i in range(1_000_000):\n    n += i\nawait shop.get_one(number=1)\nn"
    async with gateway_of(tmp_path, shop()) as (client, _):
        await ran(client, "1")
        held: list = []

        async def run():
            held.append(await ran(client, code))

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(run)
            took = []
            while len(held) < 8:
                start = anyio.current_time()
                await client.call_tool("search_tools", {"query": "all rows"})
                took.append(anyio.current_time() - start)
                await anyio.sleep(0.01)
    assert {one["result"] for one in held} == {499_999_500_000}
    # Each script works for a good while; searches go on between, and none waits for a script.
    assert len(took) >= 5
    assert sorted(took)[len(took) // 2] < 0.5


SLEEPS = "import asyncio\nawait asyncio.sleep(200)"


@pytest.mark.anyio
async def test_sleeping_scripts_of_one_client_leave_places_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(run_code, "_MAX_WAIT_FOR_PLACE_S", 1.0)
    profiles = {
        name: Profile(name, pass_through=0.0, has_run_code=True) for name in ("a", "b", "c")
    }
    made = made_gateway(tmp_path, [talking("one")], profiles=profiles)
    answers: list = []

    async def sleep(client):
        result = await client.call_tool("run_code", {"code": SLEEPS})
        answers.append(text_of(result))

    async with (
        over_http(made, {"a": "first", "b": "second", "c": "third"}) as url,
        http_client(url, "first", mode="legacy") as first,
        http_client(url, "first", mode="legacy") as same_profile,
        http_client(url, "second", mode="legacy") as second_profile,
        http_client(url, "third", mode="legacy") as other,
        anyio.create_task_group() as group,
    ):
        # The last two places are for profiles that run no script.
        for client, count in ((first, 4), (same_profile, 2), (second_profile, 1)):
            for _ in range(10):
                group.start_soon(sleep, client)
            with anyio.fail_after(60):
                while len(answers) < 10 - count:
                    await anyio.sleep(0.05)
            assert all("or 8 of all, are running" in text for text in answers)
            answers.clear()
            with anyio.fail_after(30):
                result = await other.call_tool("run_code", {"code": "1 + 1"})
                assert result.structured_content["result"] == 2
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_script_that_calls_a_missing_server_reads_why_it_is_missing(tmp_path):
    """Seen in use: "no server, variable or import 'mail'", and the model wrote the mail itself."""
    async with gateway_of(tmp_path, shop()) as (client, made):
        await made.fleet.reload(
            [one.spec for one in made.fleet.upstreams.values()],
            {"mail-box": "env.KEY: the variable MAIL_KEY is not set; set it"},
        )
        result = await ran(client, "await mail_box.send(text='a')")
    message = result["error"]["message"]
    assert "the server 'mail-box' is not usable" in message
    assert "the variable MAIL_KEY is not set" in message


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "action", "calls"),
    [(mode, *end) for mode in ("legacy", "auto") for end in (("accept", 2), ("decline", 1))],
)
async def test_a_rule_asks_the_user_about_a_direct_call(tmp_path, mode, action, calls):
    asked = []

    async def elicited(context, params):
        asked.append(params.message)
        return types.ElicitResult(action=action)

    rule = Rule(tools="mail/send", when=argument("text", not_matches="ok"), approval=True)
    server = mail()
    options = {"elicitation_callback": elicited, "mode": mode}
    async with gateway_of(tmp_path, server, client=options, rules=Gate([rule])) as (client, _):
        for text in ("ok", "pay all"):
            given = {"name": "mail/send", "arguments": {"text": text}}
            await client.call_tool("get_tool_details", {"names": ["mail/send"]})
            result = await client.call_tool("call_tool", given)
    assert len(server.calls) == calls
    shown = 'mail/send with {"text": "pay all"}'
    assert asked == [f"The agent wants to call {shown}. Accept to allow it."]
    if calls == 1:
        answer = json.loads(text_of(result))
        assert (answer["status"], answer["code"]) == ("unapproved", "approval")
        assert "pay all" not in text_of(result)
