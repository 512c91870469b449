"""A client hears when a resource that it follows has changed, and only then."""

from __future__ import annotations

import anyio
import mcp.types as types
import pytest
from mcp import Client, MCPError
from mcp.server.subscriptions import ResourceUpdated

from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.relay import subscriptions

from .fake_servers import FakeServer, fleet_of, tool
from .fleets import BareCall
from .talking import (
    SERVER,
    Heard,
    call,
    http_client,
    made_gateway,
    over_http,
    running,
    talking,
    text_of,
)

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("era", ["older", "newer"])
NOTE = "shortlist://one/memo://note/1"
TOOLS = Profile(pass_through=0.0)


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def subscribe(client, uri):
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


async def unsubscribe(client, uri):
    request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


def updates(heard):
    return [
        message.params.uri
        for message in heard.others
        if isinstance(message, types.ResourceUpdatedNotification)
    ]


async def until(condition):
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.05)


@ERAS
async def test_older_clients_hear_what_they_follow_and_no_other_client_does(tmp_path, era):
    profiles = {"a": TOOLS, "b": TOOLS}
    made = made_gateway(tmp_path, [talking("one", era)], profiles=profiles)
    mine, other = Heard(), Heard()
    async with (
        over_http(made, {"a": "first", "b": "second"}) as url,
        http_client(url, "first", mode="legacy", **mine.callbacks()) as first,
        http_client(url, "second", mode="legacy", **other.callbacks()) as second,
    ):
        await subscribe(first, NOTE)
        await subscribe(first, NOTE)
        await subscribe(second, "shortlist://one/memo://note/2")
        await call(second, "one/change", uri="memo://note/1")
        await until(lambda: updates(mine))
        await call(second, "one/change", uri="memo://note/2")
        await until(lambda: updates(other))
        assert (updates(mine), updates(other)) == ([NOTE], ["shortlist://one/memo://note/2"])
        await unsubscribe(first, NOTE)
        await call(second, "one/change", uri="memo://note/1")
        await call(second, "one/change", uri="memo://note/2")
        await until(lambda: len(updates(other)) == 2)
        assert updates(mine) == [NOTE]
        if era == "older":
            with anyio.fail_after(20):
                while "note/1" in text_of(await call(first, "one/who_follows")):
                    await anyio.sleep(0.05)


async def test_what_a_session_follows_ends_with_it(tmp_path):
    made = made_gateway(tmp_path, [talking("one")])
    async with over_http(made) as url, http_client(url) as other:
        async with http_client(url, mode="legacy") as client:
            await subscribe(client, NOTE)
            assert "note/1" in text_of(await call(other, "one/who_follows"))
        with anyio.fail_after(20):
            while text_of(await call(other, "one/who_follows")) != "[]":
                await anyio.sleep(0.05)


@ERAS
async def test_newer_clients_listen(tmp_path, era):
    made = made_gateway(tmp_path, [talking("one", era), talking("two", era)])
    async with over_http(made) as url, http_client(url) as client, http_client(url) as other:
        wanted = [NOTE, "memo://note/2", "shortlist://none/memo://note/1"]
        async with client.listen(resource_subscriptions=wanted, tools_list_changed=True) as changes:
            assert changes.honored.resource_subscriptions == [NOTE]
            assert not changes.honored.tools_list_changed
            await call(other, "two/change", uri="memo://note/1")
            await call(other, "one/change", uri="memo://note/1")
            with anyio.fail_after(30):
                async for change in changes:
                    assert change == ResourceUpdated(uri=NOTE)
                    break
        if era == "older":
            with anyio.fail_after(20):
                while text_of(await call(other, "one/who_follows")) != "[]":
                    await anyio.sleep(0.05)


async def test_a_subscription_outlives_the_servers_process(tmp_path, monkeypatch):
    monkeypatch.setattr(subscriptions, "_CHECK_INTERVAL_S", 0.1)
    made, heard = made_gateway(tmp_path, [talking("one")]), Heard()
    async with (
        running(made),
        Client(made.server, mode="legacy", **heard.callbacks()) as client,
    ):
        await subscribe(client, NOTE)
        assert (await call(client, "one/end_process")).is_error
        with anyio.fail_after(30):
            while "note/1" not in text_of(await call(client, "one/who_follows")):
                await anyio.sleep(0.1)
        await call(client, "one/change", uri="memo://note/1")
        await until(lambda: updates(heard) == [NOTE])


@ERAS
async def test_a_subscription_ends_with_its_server_and_begins_again_with_it(
    tmp_path, monkeypatch, era
):
    monkeypatch.setattr(subscriptions, "_CHECK_INTERVAL_S", 0.1)
    made, heard = made_gateway(tmp_path, [talking("one", era)]), Heard()
    async with (
        running(made),
        Client(made.server, mode="legacy", **heard.callbacks()) as client,
    ):
        await subscribe(client, NOTE)
        removed = made.fleet.upstreams["one"]
        await made.fleet.reload([])
        await until(lambda: removed._request_count == 0)
        await made.fleet.reload([talking("one", era)])
        with anyio.fail_after(30):
            while updates(heard) != [NOTE]:
                await call(client, "one/change", uri="memo://note/1")
                await anyio.sleep(0.1)


async def test_a_subscription_lets_calls_of_a_failing_server_through(tmp_path):
    async def forever(client, patience):
        with patience.paused():
            await anyio.sleep_forever()

    async with fleet_of(tmp_path, FakeServer("one", [tool("echo")])) as fleet:
        upstream = fleet.upstreams["one"]
        # As after three failures in a row.
        upstream._failures = 3
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: upstream.follow(forever))
            await until(lambda: upstream._request_count == 1)
            with anyio.fail_after(5):
                await upstream.send(BareCall("one", "echo", {}))
            group.cancel_scope.cancel()


async def test_what_may_not_be_read_cannot_be_followed(tmp_path):
    profile = Profile(pass_through=0.0, servers=("one", "two"))
    plain = talking("two", args=(SERVER, "two", "older", "plain"))
    made = made_gateway(tmp_path, [talking("one"), plain, talking("three")], profile)
    async with running(made), Client(made.server, mode="legacy") as client:
        with pytest.raises(MCPError, match="no resource"):
            await subscribe(client, "shortlist://three/memo://note/1")
        with pytest.raises(MCPError, match="does not support subscriptions"):
            await subscribe(client, "shortlist://two/memo://note/1")
        for _ in range(2):
            with pytest.raises(MCPError, match="nobody can follow this"):
                await subscribe(client, "shortlist://one/other://")
        await unsubscribe(client, "shortlist://one/other://")
        await subscribe(client, NOTE)
        assert text_of(await call(client, "one/who_follows")) == "['memo://note/1']"
