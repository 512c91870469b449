"""Objects of the MCP SDK, plain definitions and live clients, wherever tools are taken."""

from __future__ import annotations

import mcp.types as types
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from shortlist import Catalog, Engine, Tool
from shortlist.catalog import read_tools
from shortlist.errors import CatalogError, ToolError

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OBJECT = types.Tool(name="forecast", description="Weather", input_schema=SCHEMA)
RESULT = types.ListToolsResult(tools=[OBJECT])
PLAIN = {"name": "forecast", "description": "Weather", "inputSchema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "forecast", "parameters": SCHEMA}}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize(
    "given",
    [RESULT, [RESULT], [OBJECT], (OBJECT,), OBJECT, PLAIN, [PLAIN], {"tools": [PLAIN]}, [FUNCTION]],
)
def test_one_definition_in_every_form(given):
    tools = (
        *Catalog(given),
        *Catalog.read(given),
        *read_tools(given).tools,
        *Engine.from_tools(given, tiers=["lexical"]).catalog,
        *Catalog().add(given),
    )
    assert {tool.id for tool in tools} == {"forecast"}
    assert all(tool.parameters[0].name == "city" for tool in tools)


def test_tools_and_definitions_in_one_list():
    catalog = Catalog([Tool("add"), OBJECT, {**PLAIN, "name": "tides"}, Tool("subtract")])
    assert [tool.id for tool in catalog] == ["add", "forecast", "tides", "subtract"]


@pytest.mark.parametrize("given", [RESULT, [OBJECT], [PLAIN], {"tools": [PLAIN]}])
def test_a_table_of_servers_and_an_update_of_one(given):
    catalog = Catalog({"weather": given})
    assert [tool.id for tool in catalog] == ["weather/forecast"]
    engine = Engine.from_tools([Tool("add", "sums")], tiers=["lexical"])
    engine.replace_server("weather", given)
    assert [tool.id for tool in engine.catalog] == ["sums/add", "weather/forecast"]


def test_what_is_no_tool_is_refused_with_what_to_do():
    with pytest.raises(CatalogError, match=r"Catalog\.read\('tools\.json'\)"):
        Catalog("tools.json")
    with pytest.raises(CatalogError, match="got int"):
        Catalog([Tool("add"), 3])
    with pytest.raises(ToolError, match="input_schema"):
        Catalog([{"name": "add", "inputSchema": "text"}])
    with pytest.raises(CatalogError, match=r"await Catalog\.from_client\(client\)"):
        Engine.from_tools(Client(MCPServer("x")))


@pytest.mark.anyio
async def test_a_live_client_is_asked_for_all_its_tools():
    server = MCPServer("weather")
    for number in range(3):
        server.tool(name=f"tool_{number}")(lambda city: city)
    async with Client(server) as client:
        catalog = await Catalog.from_client(client, server="weather")
    assert [tool.id for tool in catalog] == [f"weather/tool_{number}" for number in range(3)]


@pytest.mark.anyio
async def test_all_pages_of_a_client_are_read_and_a_loop_of_pages_ends():
    class Pages:
        asked = 0

        async def list_tools(self, *, cursor=None):
            self.asked += 1
            return {"tools": [{**PLAIN, "name": f"tool_{cursor}"}], "nextCursor": "again"}

    client = Pages()
    catalog = await Catalog.from_client(client)
    assert [tool.id for tool in catalog] == ["tool_None", "tool_again"]
    assert client.asked == 2


@pytest.mark.anyio
async def test_a_bad_definition_is_an_error_in_a_file_and_from_a_client_or_is_named():
    listed = {"tools": [PLAIN, {"name": "bad", "inputSchema": "text"}]}

    class Bad:
        async def list_tools(self, *, cursor=None):
            return listed

    with pytest.raises(ToolError, match="input_schema"):
        await Catalog.from_client(Bad())
    with pytest.raises(ToolError, match="input_schema"):
        Catalog.read(listed, format="mcp")
    for catalog in (
        await Catalog.from_client(Bad(), strict=False),
        Catalog.read(listed, format="mcp", strict=False),
    ):
        assert [tool.name for tool in catalog] == [PLAIN["name"]]
        assert [bad.name for bad in catalog.rejected] == ["bad"]
