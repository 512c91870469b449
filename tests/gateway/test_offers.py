"""Lists of a server besides tools: hostile ones cost only themselves."""

from __future__ import annotations

import itertools

import anyio
import mcp.types as types
import pytest
from mcp import Client, MCPError
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged

from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.upstream import server_lists as offers_module
from shortlist.gateway.upstream.server_lists import (
    Listing,
    ResourcesAndPrompts,
    read_resources_and_prompts,
)
from shortlist.gateway.upstream.skills import Skill
from shortlist.gateway.upstream.start_cache import ListingCache

from .fake_servers import FakeServer, fleet_of, tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_a_list_that_fails_hangs_or_never_ends_costs_only_itself(monkeypatch):
    monkeypatch.setattr(offers_module, "_LIST_TIMEOUT_S", 0.5)
    numbers = itertools.count()

    async def endless(context, params):
        number = next(numbers)
        resource = types.Resource(uri=f"a:{number}", name="a")
        return types.ListResourcesResult(resources=[resource], next_cursor=str(number))

    async def fails(context, params):
        raise MCPError(-32603, "no templates today")

    async def hangs(context, params):
        await anyio.sleep(60)

    server = Server(
        "odd",
        on_list_resources=endless,
        on_list_resource_templates=fails,
        on_list_prompts=hangs,
    )
    async with Client(server) as client:
        problems = []
        found = await read_resources_and_prompts(client, problems)
    assert 0 < len(found.resources) <= 200
    assert (found.templates, found.prompts) == ((), ())
    # Its end is the limit on pages, or the time on a busy machine.
    assert problems.pop(0).startswith("its list of resources ")
    assert problems == [
        "its list of resource templates is not read to its end: no templates today",
        "its list of prompts is not read to its end: it takes too long",
    ]


async def test_a_list_that_changes_is_read_again(tmp_path):
    names, bus = ["first"], InMemorySubscriptionBus()

    async def prompts(context, params):
        return types.ListPromptsResult(prompts=[types.Prompt(name=name) for name in names])

    one = FakeServer("one", [tool("echo")])
    one.server.add_request_handler("prompts/list", types.PaginatedRequestParams, prompts)
    one.server.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus)
    )

    def known():
        return [prompt.name for prompt in fleet.listed_tools.servers["one"].lists.prompts]

    async with fleet_of(tmp_path, one) as fleet:
        assert known() == ["first"]
        names.append("second")
        with anyio.fail_after(10):
            while known() != names:
                await bus.publish(PromptsListChanged())
                await anyio.sleep(0.05)


def test_what_is_saved_is_read_again(tmp_path):
    cache, spec = ListingCache(tmp_path), ServerSpec(name="a", transport="stdio", command="b")
    lists = ResourcesAndPrompts(
        (types.Resource(uri="a:1", name="a", _meta={"b": 1}),),
        (types.ResourceTemplate(uri_template="a:{b}", name="c"),),
        (types.Prompt(name="p", arguments=[types.PromptArgument(name="q")]),),
        (
            Skill(
                uri="s",
                name="s",
                description="d",
                files=({"uri": "s", "digest": f"sha256:{0:064}"},),
            ),
        ),
    )
    tools = (types.Tool(name="t", input_schema={"type": "object"}, _meta={"none": None}),)
    listing = Listing(tools, "instructions", problems=("one",), resources_and_prompts=lists)
    cache.write(spec, listing)
    assert cache.read(spec) == listing
    (path,) = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace('"uri"', '"url"'))
    assert cache.read(spec) is None
