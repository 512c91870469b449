"""Servers and a gateway in this process, so that a test of the gateway takes milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import mcp.types as types
import pytest
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.lowlevel import Server

from shortlist.gateway.connections.server_spec import ServerSpec
from shortlist.gateway.meta_tools import client_search
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.fleet import Fleet
from shortlist.gateway.upstream.server_lists import Listing
from shortlist.gateway.upstream.start_cache import ListingCache

Answer = Callable[[str, Mapping[str, Any]], Any]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, description: str = "", **given: Any) -> types.Tool:
    """A definition as a server lists it."""
    schema = given.pop("input_schema", TEXT)
    if isinstance(hints := given.pop("hints", None), dict):
        given["annotations"] = types.ToolAnnotations.model_validate(hints)
    if (meta := given.pop("meta", None)) is not None:
        given["_meta"] = meta
    return types.Tool(name=name, description=description, input_schema=schema, **given)


READ = {"readOnlyHint": True}
WRITE = {"readOnlyHint": False, "destructiveHint": False}
DESTROY = {"destructiveHint": True}


class FakeServer:
    """A server whose tools and answers a test sets; it answers with the name and arguments."""

    def __init__(
        self,
        name: str,
        tools: Iterable[types.Tool],
        *,
        instructions: str | None = None,
        answer: Answer | None = None,
    ) -> None:
        self.name = name
        self.tools = list(tools)
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self._answer = answer
        self.server: Server[Any] = Server(
            name,
            instructions=instructions,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def _call(
        self,
        context: Any,
        params: types.CallToolRequestParams,
    ) -> types.CallToolResult:
        given = dict(params.arguments or {})
        self.calls.append((params.name, given))
        said = f"{params.name} ran" if self._answer is None else self._answer(params.name, given)
        if isinstance(said, types.CallToolResult):
            return said
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


@asynccontextmanager
async def fleet_of(folder: Path, *servers: FakeServer, **settings: Any):
    """A running fleet over fake servers, which are all known."""
    by_name = {one.name: one for one in servers}
    fleet = Fleet(
        [ServerSpec(name=name, transport="stdio", command="none") for name in by_name],
        engine_settings={"tiers": ["lexical"], **settings.pop("engine", {})},
        listing_cache=ListingCache(folder / "manifests"),
        open_log=lambda _: StringIO(),
        transport=lambda spec, *_: InMemoryTransport(by_name[spec.name].server),
        **settings,
    )
    async with anyio.create_task_group() as group:
        await group.start(fleet.run)
        with anyio.fail_after(60):
            while fleet.unlisted_servers:
                await anyio.sleep(0.005)
        try:
            yield fleet
        finally:
            group.cancel_scope.cancel()


@asynccontextmanager
async def gateway_of(
    folder: Path,
    *servers: FakeServer,
    profile: Profile | None = None,
    client: Mapping[str, Any] | None = None,
    **settings: Any,
):
    """A client of a gateway over fake servers, made with the arguments `client`; the gateway."""
    async with fleet_of(folder, *servers, **settings) as fleet:
        made = Gateway(fleet, profile or Profile(pass_through=0.0))
        async with Client(made.server, **(client or {})) as connected:
            yield connected, made


async def relisted(made: Gateway, server: FakeServer, *tools: types.Tool) -> None:
    """A server lists other tools now, and the gateway has read them."""
    server.tools, fleet = list(tools), made.fleet
    read = fleet.listed_tools.use_listing(fleet.upstreams[server.name].spec, Listing(tuple(tools)))
    await anyio.to_thread.run_sync(fleet._index_tools, server.name, read)


def text_of(result: types.CallToolResult) -> str:
    """The texts of a result."""
    return "".join(part.text for part in result.content if part.type == "text")


def wait_for_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches wait for votes. On a busy machine the usual 50 ms end before a vote comes."""
    monkeypatch.setattr(client_search, "Voters", partial(client_search.Voters, timeout_ms=20_000))


async def found_by(client: Client, query: str, **options: Any) -> list[str]:
    """Ids that search_tools gives."""
    result = await client.call_tool("search_tools", {"query": query, **options})
    assert not result.is_error, text_of(result)
    return [one["name"] for one in result.structured_content["tools"]]
