"""The outcome of a call is recorded in the client's state, without a turn of a conversation."""

from __future__ import annotations

import mcp.types as types
import pytest

from shortlist.gateway.profiles.profile import Profile
from shortlist.gating import Gate, Rule, after
from shortlist.session import Session

from .fake_servers import FakeServer, gateway_of, text_of, tool


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
