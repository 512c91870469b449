"""The gateway over real servers, each a process of its own, with a real client in front."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.http_server import serve_http
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.start_cache import ListingCache

from .warm_python import warm

SERVER = str(Path(__file__).parent / "everything_server.py")
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def spec(name: str, **changed) -> ServerSpec:
    given = {"transport": "stdio", "command": sys.executable, "args": warm(SERVER, name), **changed}
    return ServerSpec(name=name, **given)


@asynccontextmanager
async def gateway(tmp_path, *specs, profile=None, **settings):
    fleet = Fleet(
        specs,
        engine_settings={"tiers": ["lexical"]},
        listing_cache=ListingCache(tmp_path / "manifests"),
        **settings,
    )
    made = Gateway(fleet, profile or Profile(pass_through=0.0))
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        async with Client(made.server) as client:
            yield client, made
        group.cancel_scope.cancel()


async def all_known(made):
    with anyio.fail_after(30):
        while made.fleet.unlisted_servers:
            await anyio.sleep(0.05)


def text_of(result):
    return "".join(part.text for part in result.content)


async def test_search_describe_and_call_over_two_servers(tmp_path):
    async with gateway(tmp_path, spec("one"), spec("two")) as (client, made):
        await all_known(made)
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [
            "search_tools",
            "get_tool_details",
            "call_tool",
            "list_servers",
            "read_result",
        ]
        found = await client.call_tool("search_tools", {"query": "add two numbers"})
        names = [one["name"] for one in found.structured_content["tools"]]
        assert set(names[:2]) == {"one/add_numbers", "two/add_numbers"}
        told = await client.call_tool("get_tool_details", {"names": [names[0], "one/ad_numbers"]})
        first, second = told.structured_content["tools"]
        assert set(first["input_schema"]["properties"]) == {"first", "second"}
        assert second["nearest"][0] == "one/add_numbers"
        given = {"name": "two__add_numbers", "arguments": {"first": 2, "second": 40}}
        answer = await client.call_tool("call_tool", given)
        assert answer.structured_content == {"result": 42}
        assert made.sessions.session_of(None).session.state.called == ("two/add_numbers",)


async def test_wrong_arguments_and_failures_are_answered(tmp_path):
    async with gateway(tmp_path, spec("one")) as (client, made):
        await all_known(made)
        wrong = await client.call_tool("call_tool", {"name": "one/add_numbers", "arguments": {}})
        assert wrong.is_error
        assert {one["path"] for one in json.loads(text_of(wrong))["problems"]} == {
            "/first",
            "/second",
        }
        given = {"name": "one/fail_on_purpose", "arguments": {"reason": "so"}}
        failed = await client.call_tool("call_tool", given)
        assert failed.is_error
        assert made.sessions.session_of(None).session.state.called == ()
        nothing = await client.call_tool("call_tool", {"name": "one/none"})
        assert nothing.is_error
        bad = await client.call_tool("search_tools", {"query": 3})
        assert bad.is_error
        misnamed = await client.call_tool("call_tool", {"tool": "one/add_numbers"})
        assert text_of(misnamed) == (
            "The arguments do not fit: /name: expected string (required), got nothing; "
            "/tool: unknown; did you mean name? call_tool takes: name, arguments"
        )


async def test_a_server_that_dies_during_a_call_is_named_and_comes_back(tmp_path):
    async with gateway(tmp_path, spec("one"), spec("two")) as (client, made):
        await all_known(made)
        died = await client.call_tool("call_tool", {"name": "one/end_process"})
        assert died.is_error
        assert "'one'" in text_of(died)
        add = {"arguments": {"first": 1, "second": 1}}
        other = await client.call_tool("call_tool", {"name": "two/add_numbers", **add})
        assert other.structured_content == {"result": 2}
        again = await client.call_tool("call_tool", {"name": "one/add_numbers", **add})
        assert again.structured_content == {"result": 2}


async def test_with_manifests_nothing_starts_before_it_is_called(tmp_path):
    async with gateway(tmp_path, spec("one")) as (client, made):
        await all_known(made)
    async with gateway(tmp_path, spec("one")) as (client, made):
        assert made.fleet.upstreams["one"].state == "known"
        found = await client.call_tool("search_tools", {"query": "repeat a text"})
        assert found.structured_content["tools"][0]["name"] == "one/repeat_text"
        assert made.fleet.upstreams["one"].state == "known"
        given = {"name": "repeat_text", "arguments": {"text": "ab", "times": 2}}
        assert text_of(await client.call_tool("call_tool", given)) == "abab"
        assert made.fleet.upstreams["one"].state == "started"


async def test_a_server_that_cannot_start_costs_only_itself(tmp_path):
    broken = spec("broken", command=sys.executable, args=("-c", "raise SystemExit(2)"))
    async with gateway(tmp_path, broken, spec("one")) as (client, made):
        with anyio.fail_after(30):
            while made.fleet.upstreams["broken"].state != "failed" or made.fleet.unlisted_servers:
                await anyio.sleep(0.05)
        rows = (await client.call_tool("list_servers", {})).structured_content["servers"]
        states = {row["name"]: row["state"] for row in rows}
        assert states == {"broken": "failed", "one": "started"}


async def test_what_a_profile_does_not_allow_is_neither_found_nor_called(tmp_path):
    profile = Profile(pass_through=0.0, tools=("one/add_*",), pinned=("one/*",))
    async with gateway(tmp_path, spec("one"), profile=profile) as (client, made):
        await all_known(made)
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed[5:] == ["one__add_numbers"]
        found = await client.call_tool("search_tools", {"query": "repeat a text", "k": 50})
        assert [one["name"] for one in found.structured_content["tools"]] in (
            [],
            ["one/add_numbers"],
        )
        given = {"text": "x", "times": 1}
        for name in ("one/repeat_text", "repeat_text", "one__repeat_text"):
            denied = await client.call_tool("call_tool", {"name": name, "arguments": given})
            assert denied.is_error
        direct = await client.call_tool("one__add_numbers", {"first": 1, "second": 2})
        assert direct.structured_content == {"result": 3}


async def test_a_small_catalog_is_passed_through(tmp_path):
    async with gateway(tmp_path, spec("one"), profile=Profile()) as (client, made):
        await all_known(made)
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "one__add_numbers" in names
        assert "search_tools" not in names
        answer = await client.call_tool("one__add_numbers", {"first": 1, "second": 2})
        assert answer.structured_content == {"result": 3}


async def test_clients_over_http_have_their_profile_and_nothing_of_each_other(tmp_path):
    profiles = {
        "adder": Profile(tools=("one/add_*",), pass_through=0.0),
        "all": Profile(pass_through=0.0),
    }
    fleet = Fleet(
        [spec("one")], engine_settings={"tiers": ["lexical"]}, listing_cache=ListingCache(tmp_path)
    )
    made = Gateway(fleet, profiles=profiles)
    ports = []
    async with anyio.create_task_group() as group:
        tokens = {"adder": "first-token", "all": "second-token"}
        group.start_soon(lambda: serve_http(made, "127.0.0.1", 0, tokens, on_start=ports.append))
        with anyio.fail_after(30):
            while not ports or fleet.unlisted_servers:
                await anyio.sleep(0.05)
        url = f"http://127.0.0.1:{ports[0]}/mcp"
        async with over_http(url, "first-token") as adder, over_http(url, "second-token") as every:
            given = {"name": "one/repeat_text", "arguments": {"text": "ab", "times": 2}}
            assert (await adder.call_tool("call_tool", given)).is_error
            assert text_of(await every.call_tool("call_tool", given)) == "abab"
            found = await adder.call_tool("search_tools", {"query": "repeat a text", "k": 9})
            assert {one["name"] for one in found.structured_content["tools"]} <= {"one/add_numbers"}
        with pytest.raises(Exception):  # noqa: B017 - whatever the SDK raises for a 401
            async with over_http(url, "wrong") as nobody:
                await nobody.list_tools()
        group.cancel_scope.cancel()


async def test_the_results_of_an_http_session_go_with_it(tmp_path):
    fleet = Fleet(
        [spec("one")], engine_settings={"tiers": ["lexical"]}, listing_cache=ListingCache(tmp_path)
    )
    made = Gateway(fleet, Profile(pass_through=0.0, result_tokens=100))
    ports = []
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve_http(made, "127.0.0.1", 0, on_start=ports.append))
        with anyio.fail_after(30):
            while not ports or fleet.unlisted_servers:
                await anyio.sleep(0.05)
        url = f"http://127.0.0.1:{ports[0]}/mcp"
        async with httpx2.AsyncClient() as browser:
            host = f"127.0.0.1:{ports[0]}"
            for header in ({"host": f"{host}.evil.example"}, {"host": "evil.example:localhost"}):
                assert (await browser.post(url, headers=header)).status_code == 421
            header = {"origin": f"http://{host}.evil.example"}
            assert (await browser.post(url, headers=header)).status_code == 403
        transport = streamable_http_client(url)
        async with Client(transport, mode="legacy") as client:
            given = {"name": "one/repeat_text", "arguments": {"text": "word and ", "times": 3_000}}
            assert "read_result" in text_of(await client.call_tool("call_tool", given))
            assert made.sessions._result_memory.chars > 0
        with anyio.fail_after(5):
            while made.sessions._result_memory.chars:
                await anyio.sleep(0.02)
        group.cancel_scope.cancel()


@asynccontextmanager
async def over_http(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
