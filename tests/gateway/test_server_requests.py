"""What servers say and ask during a call reaches the client whose call it is, and no other."""

from __future__ import annotations

import base64
import json
import os
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import mcp.types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from shortlist import Gate, Rule
from shortlist.gateway.observe.observer import Observer
from shortlist.gateway.profiles.approval_states import ApprovalStates
from shortlist.gateway.profiles.long_results import ResultMemory, SessionResults
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.upstream import pending_calls
from shortlist.session import JsonLines, read_events

from .fake_servers import FakeServer, found_by, gateway_of, relisted, tool, wait_for_votes
from .talking import (
    SERVER,
    Heard,
    both,
    call,
    http_client,
    made_gateway,
    over_http,
    running,
    set_level,
    talking,
    talking_over_http,
    text_of,
)
from .talking_server import PICTURE
from .warm_python import warm

pytestmark = pytest.mark.anyio
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
ERAS = pytest.mark.parametrize("era", ["older", "newer"])
#: A client and a server of different eras, between which the gateway translates.
CROSSED = pytest.mark.parametrize(("mode", "era"), [("auto", "older"), ("legacy", "newer")])


@pytest.fixture
def anyio_backend():
    return "asyncio"


@MODES
@ERAS
async def test_questions_go_to_the_client_and_answers_back(tmp_path, mode, era):
    made, heard = made_gateway(tmp_path, [talking("one", era)]), Heard()
    async with running(made), Client(made.server, mode=mode, **heard.callbacks()) as client:
        answer = await call(client, "one/ask_user", who="me")
        assert text_of(answer) == "accept answer of me"
        answer = await call(client, "one/ask_model", who="me")
        assert text_of(answer) == "model of me"
        assert heard.questions == ["[one] Question for me", "Question for me"]
        answer = await call(client, "one/ask_folders")
        assert text_of(answer) == "['file:///home/me']"
        assert made.sessions.session_of(None).session.state.called == (
            "one/ask_user",
            "one/ask_model",
            "one/ask_folders",
        )


@MODES
async def test_a_call_whose_client_is_asked_first_is_recorded_once(tmp_path, mode):
    made, heard = made_gateway(tmp_path, [talking("one")]), Heard()
    made.observer = Observer(JsonLines(tmp_path / "events"))
    async with running(made), Client(made.server, mode=mode, **heard.callbacks()) as client:
        await call(client, "one/ask_user", who="me")
    calls = [one for one in read_events(tmp_path / "events") if one.kind == "call"]
    assert [(one.tool, one.outcome) for one in calls] == [("one/ask_user", "ok")]


@MODES
async def test_a_user_may_think_for_longer_than_a_call_may_take(tmp_path, mode):
    heard = Heard(thinks_s=1.5)
    made = made_gateway(tmp_path, [talking("one", timeout_s=1.0)])
    async with running(made), Client(made.server, mode=mode, **heard.callbacks()) as client:
        answer = await call(client, "one/ask_user", who="me")
        assert text_of(answer) == "accept answer of me"
        late = await call(client, "one/wait_long", who="me")
        assert late.is_error
        assert "did not answer within 1 s" in text_of(late)


@CROSSED
async def test_a_client_that_cannot_be_asked_is_told_so(tmp_path, mode, era):
    made = made_gateway(tmp_path, [talking("one", era)])
    async with running(made), Client(made.server, mode=mode) as client:
        for name, wanted in (
            ("ask_user", "elicitation"),
            ("ask_model", "sampling"),
            ("ask_folders", "roots"),
        ):
            answer = await call(client, f"one/{name}")
            assert answer.is_error
            assert wanted in text_of(answer)
            assert "which this client does not support" in text_of(answer)


@CROSSED
async def test_logs_and_progress_of_a_call_arrive_in_order_before_its_result(tmp_path, mode, era):
    made, heard = made_gateway(tmp_path, [talking("one", era)]), Heard()
    options = heard.callbacks(log_level="info")
    async with running(made), Client(made.server, mode=mode, **options) as client:
        if mode == "legacy":
            await client.session.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams(level="info")),
                types.EmptyResult,
            )
        answer = await call(client, "one/say_everything", heard.on_progress, who="me", rounds=5)
        assert text_of(answer) == "answer of me"
        assert heard.logs == [f"me {number}" for number in range(5)]
        assert heard.progress == [(number + 1, 5, f"me {number}") for number in range(5)]


async def test_a_level_is_respected(tmp_path):
    made, heard = made_gateway(tmp_path, [talking("one")]), Heard()
    async with (
        running(made),
        Client(made.server, mode="legacy", **heard.callbacks()) as client,
    ):
        await set_level(client, "warning")
        await call(client, "one/say_everything", who="me", rounds=3)
        assert heard.logs == []
        await set_level(client, "debug")
        await call(client, "one/say_everything", who="me", rounds=3)
        assert heard.logs == ["me 0", "me 1", "me 2"]


@CROSSED
async def test_cancelling_a_call_reaches_the_server(tmp_path, mode, era):
    notes = tmp_path / "notes"
    notes.touch()
    made = made_gateway(tmp_path, [talking("one", era, f"notes={notes}")])
    async with over_http(made) as url, http_client(url, mode=mode) as client:
        async with anyio.create_task_group() as group:

            async def started(progress, total, message):
                group.cancel_scope.cancel()

            group.start_soon(lambda: call(client, "one/wait_long", started, who="me"))
        with anyio.fail_after(60):
            while "cancelled: me" not in notes.read_text():
                await anyio.sleep(0.05)


@pytest.mark.parametrize(
    ("modes", "era"),
    [
        (("auto", "auto"), "older"),
        (("legacy", "legacy"), "older"),
        (("auto", "legacy"), "older"),
        (("auto", "legacy"), "newer"),
    ],
)
async def test_clients_hear_only_their_own(tmp_path, modes, era):
    """At the same time, because a server over HTTP names the call of each message."""
    heard = [Heard(name) for name in ("ann", "bob")]
    answers = {}
    async with (
        talking_over_http("one", era) as one,
        over_http(made_gateway(tmp_path, [one])) as url,
        anyio.create_task_group() as group,
    ):

        async def talk(me, mode):
            options = me.callbacks(mode=mode, log_level="info")
            async with http_client(url, **options) as client:
                if mode == "legacy":
                    await set_level(client, "info")
                for number in range(3):
                    who = f"{me.name} {number}"
                    answers[who] = await call(
                        client, "one/say_everything", me.on_progress, who=who, rounds=4
                    )

        for me, mode in zip(heard, modes, strict=True):
            group.start_soon(talk, me, mode)
    for me in heard:
        calls = [f"{me.name} {number}" for number in range(3)]
        assert [text_of(answers[who]) for who in calls] == [f"answer of {me.name}"] * 3
        assert me.questions == [f"[one] Question for {who}" for who in calls]
        said = [f"{who} {number}" for who in calls for number in range(4)]
        assert me.logs == said
        assert [message for _, _, message in me.progress] == said


async def test_a_log_message_without_a_call_reaches_clients_that_set_a_level(tmp_path):
    profiles = {
        "a": Profile(pass_through=0.0),
        "b": Profile(pass_through=0.0),
        "c": Profile(pass_through=0.0, servers=("none",)),
    }
    tokens = {"a": "first", "b": "second", "c": "third"}
    made = made_gateway(tmp_path, [talking("one")], profiles=profiles)
    setter, silent, foreign = Heard(), Heard(), Heard()
    async with (
        over_http(made, tokens) as url,
        http_client(url, "first", mode="legacy", **setter.callbacks()) as first,
        http_client(url, "second", mode="legacy", **silent.callbacks()) as second,
        http_client(url, "third", mode="legacy", **foreign.callbacks()) as third,
    ):
        await set_level(first, "info")
        await set_level(third, "info")
        await call(second, "one/say_later", text="news")
        with anyio.fail_after(20):
            while not setter.logs:
                await anyio.sleep(0.05)
        await anyio.sleep(0.2)
        assert (setter.logs, silent.logs, foreign.logs) == (["news"], [], [])


async def test_what_a_server_says_while_it_votes_reaches_no_other_client(tmp_path, monkeypatch):
    wait_for_votes(monkeypatch)

    class Talkative(FakeServer):
        async def _call(self, context, params):
            said = types.LoggingMessageNotificationParams(level="error", data=params.arguments)
            await context.session.send_notification(
                types.LoggingMessageNotification(params=said), related_request_id=context.request_id
            )
            return await super()._call(context, params)

    async def told(notification):
        overheard.append(notification)

    overheard = []
    voting = Talkative("one", [tool("echo"), tool("_tool_gating")])
    profile = Profile(pass_through=0.0, vote_servers=("one",))
    async with gateway_of(tmp_path, voting, profile=profile) as (client, made):
        stranger = made.sessions._new_client(None, SessionResults(ResultMemory()), ApprovalStates())
        stranger.log_level = "debug"
        stranger.log_listener = SimpleNamespace(send_notification=told)
        made.sessions._clients[None, "stranger"] = stranger
        await found_by(client, "private words")
        assert [name for name, _ in voting.calls] == ["_tool_gating"]
        await anyio.sleep(0.05)
        assert overheard == []


async def test_an_answer_to_a_question_of_another_client_is_refused(tmp_path):
    profiles = {"a": Profile(pass_through=0.0), "b": Profile(pass_through=0.0)}
    made, heard = made_gateway(tmp_path, [talking("one")], profiles=profiles), Heard()
    given = {"name": "one/ask_user", "arguments": {"who": "me"}}
    async with (
        over_http(made, {"a": "first", "b": "second"}) as url,
        http_client(url, "first", **heard.callbacks()) as mine,
        http_client(url, "second", **heard.callbacks()) as other,
    ):
        asked = await mine.session.call_tool("call_tool", given, allow_input_required=True)
        (key,) = asked.input_requests
        answer = {key: types.ElicitResult(action="accept", content={"answer": "mine"})}
        state = {"input_responses": answer, "request_state": asked.request_state}
        no_such = "no request waits for this answer"
        changed = {"name": "one/ask_user", "arguments": {"who": "you"}}
        for client, arguments in ((other, given), (mine, changed)):
            refused = await client.session.call_tool("call_tool", arguments, **state)
            assert refused.is_error
            assert no_such in text_of(refused)
        done = await mine.session.call_tool("call_tool", given, **state)
        assert text_of(done) == "accept mine"
        twice = await mine.session.call_tool("call_tool", given, **state)
        assert no_such in text_of(twice)
        state["request_state"] = "guessed"
        assert "not a state" in text_of(await mine.session.call_tool("call_tool", given, **state))


ASKS = Gate([Rule(tools="*", approval=True)])


@MODES
@ERAS
async def test_a_server_asks_during_a_call_that_the_user_approved(tmp_path, mode, era):
    profile = Profile(pass_through=0.0, rules=ASKS)
    made, heard = made_gateway(tmp_path, [talking("one", era)], profile), Heard()
    async with running(made), Client(made.server, mode=mode, **heard.callbacks()) as client:
        answer = await call(client, "one/ask_user", who="me")
    assert text_of(answer) == "accept answer of me"
    approval, question = heard.questions
    assert approval.startswith("The agent wants to call one/ask_user")
    assert question == "[one] Question for me"


async def test_an_approval_is_for_one_call_of_one_client(tmp_path):
    def profiles(tools):
        given = {"pass_through": 0.0, "tools": tools, "rules": ASKS}
        return {name: Profile(name=name, **given) for name in ("a", "b")}

    server = FakeServer("one", [tool("pay")])
    given = {"name": "one/pay", "arguments": {"to": "me"}}
    heard = Heard()
    async with gateway_of(tmp_path, server) as (_, made):
        made.sessions.replace_profiles(Profile(), profiles(("one/*",)))
        async with (
            over_http(made, {"a": "first", "b": "second"}) as url,
            http_client(url, "first", **heard.callbacks()) as mine,
            http_client(url, "second", **heard.callbacks()) as other,
        ):

            async def answered(client, params, **more):
                result = await client.session.call_tool("call_tool", params, **more)
                return text_of(result)

            async def asked():
                asks = await mine.session.call_tool("call_tool", given, allow_input_required=True)
                accepted = {key: types.ElicitResult(action="accept") for key in asks.input_requests}
                return {"input_responses": accepted, "request_state": asks.request_state}

            round_ = await asked()
            no_state = "not a state of this call"
            changed = {"name": "one/pay", "arguments": {"to": "you"}}
            state = round_["request_state"]
            forged = [f"{state}=", f"{state}=server:", state[:-1], "approval:", "server:", "held:a"]
            for text in forged:
                assert no_state in await answered(mine, given, **{**round_, "request_state": text})
            assert no_state in await answered(mine, given, **{**round_, "request_state": None})
            assert no_state in await answered(other, given, **round_)
            assert no_state in await answered(mine, changed, **round_)
            assert "is missing" in await answered(mine, given, request_state=state)
            assert server.calls == []
            assert "pay" in await answered(mine, given, **round_)
            assert no_state in await answered(mine, given, **round_)
            assert server.calls == [("pay", {"to": "me"})]
            # What holds when the user answers counts.
            rounds = [await asked(), await asked()]
            made.sessions.replace_profiles(Profile(), profiles(("one/pay",)))
            assert no_state in await answered(mine, given, **rounds[0])
            made.sessions.replace_profiles(Profile(), profiles(("one/*",)))
            await relisted(made, server, tool("pay", "Pay twice"))
            assert no_state in await answered(mine, given, **rounds[1])
            assert len(server.calls) == 1


async def test_the_waiting_requests_of_one_profile_leave_places_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(pending_calls, "_MAX_WAITING_CALLS", 3)
    monkeypatch.setattr(pending_calls, "_RESERVED_PLACES", 1)
    profiles = {name: Profile(pass_through=0.0) for name in ("a", "b")}
    # A server cannot say which of two clients' questions it asks: each request has its own server.
    names = ("one", "two", "three", "four")
    made, heard = made_gateway(tmp_path, map(talking, names), profiles=profiles), Heard()
    async with (
        over_http(made, {"a": "first", "b": "second"}) as url,
        http_client(url, "first", **heard.callbacks()) as mine,
        http_client(url, "second", **heard.callbacks()) as other,
    ):
        is_asked = []
        for name, client in zip(names, (mine, mine, mine, other), strict=True):
            given = {"name": f"{name}/ask_user", "arguments": {"who": "me"}}
            answer = await client.session.call_tool("call_tool", given, allow_input_required=True)
            is_asked.append(isinstance(answer, types.InputRequiredResult))
        assert is_asked == [True, True, False, True]


async def test_an_answer_that_fits_no_question_is_an_error(tmp_path):
    async def nonsense(context, params):
        return types.ListRootsResult(roots=[])

    made = made_gateway(tmp_path, [talking("one", "newer")])
    options = {"mode": "legacy", "elicitation_callback": nonsense}
    async with running(made), Client(made.server, **options) as client:
        answer = await call(client, "one/ask_user", who="me")
        assert answer.is_error
        assert "server 'one': " in text_of(answer)


async def test_a_servers_question_at_its_start_goes_to_the_only_client(tmp_path):
    for known in (False, True):
        made, heard = made_gateway(tmp_path, [talking("one")]), Heard()
        async with (
            running(made),
            Client(made.server, mode="legacy", **heard.callbacks()) as client,
        ):
            found = text_of(await call(client, "one/first_folders"))
            # Without a manifest the server started before the client came.
            assert ("file:///home/me" if known else "nobody can be asked") in found


async def test_clients_over_http_are_not_asked_at_a_servers_start(tmp_path):
    for _ in range(2):
        made, heard = made_gateway(tmp_path, [talking("one")]), Heard()
        async with (
            over_http(made) as url,
            http_client(url, mode="legacy", **heard.callbacks()) as client,
        ):
            found = text_of(await call(client, "one/first_folders"))
            assert "cannot ask" in found


async def test_an_address_that_a_server_needs_opened_reaches_the_client(tmp_path):
    made = made_gateway(tmp_path, [talking("one")])
    async with running(made), both(made) as clients:
        for client in clients:
            with pytest.raises(MCPError) as caught:
                await call(client, "one/need_address")
            assert caught.value.code == types.URL_ELICITATION_REQUIRED
            assert caught.value.data["elicitations"][0]["url"] == "https://a.test"


async def test_the_envelope_of_the_client_is_not_the_servers(tmp_path):
    made = made_gateway(tmp_path, [talking("one", "older")])
    async with running(made), Client(made.server) as client:
        given = {"name": "one/show_meta", "arguments": {}}
        shown = await client.call_tool("call_tool", given, meta={"example.org/mine": 1})
        assert text_of(shown) == "['example.org/mine', 'progress_token']"


@CROSSED
async def test_servers_over_http(tmp_path, mode, era):
    heard = Heard()
    async with talking_over_http("one", era) as one:
        made = made_gateway(tmp_path, [one])
        options = heard.callbacks(mode=mode, log_level="info")
        async with running(made), Client(made.server, **options) as client:
            if mode == "legacy":
                await set_level(client, "info")
            given = {"who": "me", "rounds": 3}
            answer = await call(client, "one/say_everything", heard.on_progress, **given)
            assert text_of(answer) == "answer of me"
            assert heard.logs == ["me 0", "me 1", "me 2"]
            assert len(heard.progress) == 3
            listed = (await client.list_resources()).resources
            picture = (await client.read_resource(listed[-1].uri)).contents[0]
            assert base64.b64decode(picture.blob) == PICTURE


@asynccontextmanager
async def over_stdio(tmp_path, heard, mode):
    config = tmp_path / "mcp.json"
    servers = {
        "one": {"command": sys.executable, "args": warm(SERVER, "one", "older")},
        "two": {"command": sys.executable, "args": warm(SERVER, "two", "newer")},
    }
    own = {"pass_through": 0, "engine": {"tiers": ["lexical"]}}
    config.write_text(json.dumps({"mcpServers": servers, "shortlist": own}))
    home = {"XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[
            *("-c", "from shortlist.cli import main; main()"),
            *("serve", "--alone", "--config", str(config)),
        ],
        env={**os.environ, **home},
    )
    async with Client(stdio_client(parameters), mode=mode, **heard.callbacks()) as client:
        with anyio.fail_after(60):
            while len((await client.list_prompts(cache_mode="bypass")).prompts) < 4:
                await anyio.sleep(0.1)
            # The tools of a listing are indexed a moment after its prompts are known.
            while not all(row["tools"] for row in await server_rows(client)):
                await anyio.sleep(0.1)
        yield client


async def server_rows(client):
    return (await client.call_tool("list_servers", {})).structured_content["servers"]


@MODES
async def test_everything_over_stdio(tmp_path, mode):
    heard = Heard()
    async with over_stdio(tmp_path, heard, mode) as client:
        for server in ("one", "two"):
            answer = await call(
                client, f"{server}/say_everything", heard.on_progress, who=server, rounds=2
            )
            assert text_of(answer) == "answer of me"
            part = (await client.read_resource(f"shortlist://{server}/memo://note/1")).contents[0]
            assert part.text == f"{server}: memo://note/1"
        assert [message for _, _, message in heard.progress] == ["one 0", "one 1", "two 0", "two 1"]
        with pytest.raises(MCPError, match="no prompt"):
            await client.get_prompt("none")
