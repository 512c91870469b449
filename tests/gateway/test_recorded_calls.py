"""The outcome of a call: what the client reads of it, and what its state records."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import mcp.types as types
import pytest
from mcp import ClientSession

from shortlist.gateway.clients.client_config import ClientConfig
from shortlist.gateway.profiles.profile import ClientProfiles, Profile
from shortlist.gateway.upstream import server_connection
from shortlist.gateway.upstream.server_connection import ServerState, Upstream, UpstreamError
from shortlist.gating import Gate, Rule, after, not_
from shortlist.inspector.event_history import EventHistory
from shortlist.inspector.search_answers import search_tiers
from shortlist.inspector.server_states import ServerStates
from shortlist.inspector.subject import GatewaySubject
from shortlist.session import Session

from .fake_servers import READ, WRITE, FakeServer, gateway_of, text_of, tool

CONFIG = ClientConfig(Path("mcp.json"))


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_only_a_successful_call_counts_and_none_makes_a_turn(tmp_path, monkeypatch):
    def turn(*_, **__):
        raise AssertionError("a call through the gateway makes no turn")

    monkeypatch.setattr(Session, "_run_turn", turn)
    works = []

    def answer(name, _):
        if works or name != "confirm":
            return f"{name} ran"
        content = [types.TextContent(type="text", text="no")]
        return types.CallToolResult(content=content, is_error=True)

    server = FakeServer("files", [tool("confirm"), tool("delete")], answer=answer)
    rules = Gate([Rule(after("files/confirm"), tools="files/delete")])
    profile = Profile(pass_through=0.0, rules=rules)
    async with gateway_of(tmp_path, server, profile=profile) as (client, made):

        async def called(name):
            return await client.call_tool("call_tool", {"name": name, "arguments": {}})

        assert "no" in text_of(await called("files/confirm"))
        assert (await called("files/delete")).is_error
        works.append(True)
        assert text_of(await called("files/confirm")) == "confirm ran"
        assert text_of(await called("files/delete")) == "delete ran"
        (session,) = made.sessions.all()
        assert session.session.state.called == ("files/confirm", "files/delete")


class Hanging(FakeServer):
    """A server whose calls never end while `hangs` is true."""

    hangs = True

    async def _call(self, context, params):
        result = await super()._call(context, params)
        if self.hangs:
            await anyio.sleep_forever()
        return result


def once(*tools: str) -> Profile:
    """A profile with scripts, in which each tool may be called once."""
    rules = Gate([Rule(not_(after(name)), tools=name) for name in tools])
    return Profile(pass_through=0.0, rules=rules, has_run_code=True)


async def called(client, name: str) -> str:
    return text_of(await client.call_tool("call_tool", {"name": name, "arguments": {}}))


async def ran(client, code: str):
    return (await client.call_tool("run_code", {"code": code})).structured_content


@pytest.mark.anyio
async def test_a_call_without_an_answer_may_have_happened_unless_the_tool_only_reads(tmp_path):
    server = Hanging("files", [tool("delete", hints=WRITE), tool("read", hints=READ)])
    profile = once("files/delete", "files/read")
    limits = {"timeouts": {"files/*": 0.2}}
    async with gateway_of(tmp_path, server, profile=profile, **limits) as (client, _):
        written, read = (
            await ran(client, "await files.delete()"),
            await called(client, "files/read"),
        )
        assert "it is not known whether the call had an effect" in written["error"]["message"]
        assert written["error"]["effects"] == ["files/delete {} (no_answer)"]
        assert "did not answer within 0.2 s" in read
        assert "effect" not in read
        server.hangs = False
        for answer in (
            await called(client, "files/delete"),
            (await ran(client, "await files.delete()"))["error"]["message"],
        ):
            assert "the outcome of an earlier call of files/delete is not known" in answer
        assert await called(client, "files/read") == "read ran"
    assert [name for name, _ in server.calls] == ["delete", "read", "read"]


@pytest.mark.anyio
async def test_a_call_that_was_not_sent_had_no_effect(tmp_path, monkeypatch):
    async def unavailable(self):
        raise UpstreamError("server 'files' is not available")

    server = FakeServer("files", [tool("delete", hints=WRITE)])
    profile = once("files/delete")
    async with gateway_of(tmp_path, server, profile=profile) as (client, _):
        with monkeypatch.context() as patched:
            patched.setattr(Upstream, "connect", unavailable)
            assert "not available" in await called(client, "files/delete")
            failed = await ran(client, "await files.delete()")
            assert "not available" in failed["error"]["message"]
            assert "effects" not in failed["error"]
        assert await called(client, "files/delete") == "delete ran"


@pytest.mark.anyio
async def test_the_next_call_after_a_timeout_is_answered_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(server_connection, "_RETRY_LIMIT_S", 0.2)
    server = Hanging("files", [tool("delete", hints=WRITE), tool("read", hints=READ)])
    limits = {"timeouts": {"files/*": 0.5}}
    async with gateway_of(tmp_path, server, **limits) as (client, _):
        assert "did not answer within 0.5 s" in await called(client, "files/read")
        assert "the next call has 0.5 s; try again" in await called(client, "files/read")
        assert "within 0.5 s; it is not known" in await called(client, "files/delete")
        # What may have had an effect is not sent again at once.
        assert "this call was not sent: check the effect" in await called(client, "files/delete")
        server.hangs = False
        assert await called(client, "files/delete") == "delete ran"
    assert [name for name, _ in server.calls] == ["read", "read", "delete", "delete"]


@pytest.mark.anyio
async def test_a_server_that_hangs_gets_no_other_call(tmp_path, monkeypatch):
    async def silent(*_):
        await anyio.sleep_forever()

    monkeypatch.setattr(server_connection, "_RETRY_LIMIT_S", 0.2)
    server = Hanging("files", [tool("list", hints=READ), tool("read", hints=READ)])
    limits = {"timeouts": {"files/*": 0.5}}
    async with gateway_of(tmp_path, server, **limits) as (client, made):
        assert "did not answer" in await called(client, "files/read")
        engine = made.fleet.engine
        page = GatewaySubject(
            made.fleet, CONFIG, ClientProfiles(Profile()), EventHistory(), serves_clients=True
        )
        found = search_tiers(page, engine.view(), "read", ["lexical"])["gateway"]
        assert "files/read(text?: str): read [server: hangs]" in found["text"]
        row = page.server_states().rows()["files"]
        assert (row["state"], row["actions"]) == ("hangs", ["stop", "disable"])
        assert row["repair"].startswith("It did not answer the last call: stop it")
        server.hangs = False
        with monkeypatch.context() as patched:
            patched.setattr(ClientSession, "send_discover", silent)
            patched.setattr(ClientSession, "send_ping", silent)
            answer = await called(client, "files/list")
        assert "hangs: it did not answer the last call within 0.5 s" in answer
        assert "this call was not sent" in answer
        assert await called(client, "files/list") == "list ran"
    assert [name for name, _ in server.calls] == ["read", "list"]


@pytest.mark.anyio
async def test_a_server_that_ended_is_not_called_unavailable(tmp_path):
    server = FakeServer("files", [tool("read", "Reads a file.", hints=READ)])
    async with gateway_of(tmp_path, server) as (client, made):
        upstream = made.fleet.upstreams["files"]
        upstream.state, upstream.problem = ServerState.FAILED, "the connection ended"
        upstream.problem_code = "failed"
        found = await client.call_tool("search_tools", {"query": "read a file"})
        assert found.structured_content["notes"] == ["Ended, and a call starts it again: files."]
        servers = await client.call_tool("list_servers", {})
        assert "its connection ended; a call starts it again" in text_of(servers)
        states = ServerStates(CONFIG, made.fleet, EventHistory(), serves_clients=True)
        row = states.rows()["files"]
        assert (row["state"], row["problems"]) == ("ended", ["the connection ended"])
        assert row["repair"].startswith("The next call starts it again.")
        assert states.down_servers == {}


@pytest.mark.anyio
async def test_what_is_wrong_with_a_call_comes_first_and_one_reading_is_taken(tmp_path):
    """Seen in use: "you had not seen its present definition in full" for a missing argument."""
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
    table = FakeServer("table", [tool("select", "Select rows.", input_schema=schema)])
    for share in (0.0, 1.0):
        profile = Profile(pass_through=share)
        async with gateway_of(tmp_path / str(share), table, profile=profile) as (client, _):
            wrong = {"name": "table/select", "arguments": {"sql": "SELECT 1"}}
            refused = json.loads(text_of(await client.call_tool("call_tool", wrong)))
            assert refused["error"] == "invalid_arguments"
            assert refused["message"].startswith(
                "The arguments do not fit: /query: expected string (required), got nothing; "
                "/sql: unknown; did you mean query?"
            )
            keys = list(refused)
            assert "input_schema" not in keys or keys.index("problems") < keys.index("input_schema")
            text = '{"query": "SELECT 1", "limit": "2"}'
            for given in (text, {"query": "SELECT 1", "limit": "2"}):
                call = {"name": "table/select", "arguments": given}
                assert not (await client.call_tool("call_tool", call)).is_error
                assert table.calls[-1] == ("select", {"query": "SELECT 1", "limit": 2})
            direct = await client.call_tool("table__select", {"sql": "SELECT 1"})
            assert "sql: unknown; did you mean query?" in text_of(direct)
