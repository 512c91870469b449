"""Servers that break the protocol: the gateway stays up, serves the rest, and names the problem."""

from __future__ import annotations

from resource import RUSAGE_SELF, getrusage

import anyio
import pytest
from mcp import Client

from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.gateway.upstream.server_connection import UpstreamError
from shortlist.tests.gateway.fleets import call, noted, rough, running, text_of, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def ids_of(fleet, server):
    return {tool.id for tool in fleet.engine.catalog if tool.server == server}


async def test_odd_names_are_served_and_doubles_are_named(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "names")) as fleet:
        ids = ids_of(fleet, "one")
        assert {"one/a/b", "one/a.b", "one/a b", "one/\U0001f600 smile", "one/.."} <= ids
        for odd in ("one/a/b", "one/a.b", "one/a b", "one/\U0001f600 smile", "one/.."):
            assert text_of(await call(fleet, odd, a=1)) == '{"a": 1}'
        problems = fleet.problems()["one"]
        assert any("'echo' is listed twice" in one for one in problems)
        assert any(one.startswith("tool 'xxx") for one in problems)
        assert any(one.startswith("tool '' is left out") for one in problems)


async def test_a_tool_cannot_take_the_id_of_another_server(tmp_path):
    specs = rough(tmp_path, "one", "names"), rough(tmp_path, "one/a")
    async with running(tmp_path, *specs) as fleet:
        assert {"one/a/b", "one/a/echo"} <= {tool.id for tool in fleet.engine.catalog}
        # "one" lists `a/b`; its process is not asked for the tools of "one/a".
        before = noted(tmp_path, "one", "called_echo")
        await call(fleet, "one/a/echo")
        assert noted(tmp_path, "one/a", "called_echo") == 1
        assert noted(tmp_path, "one", "called_echo") == before


async def test_schemas_that_are_no_objects_cost_only_their_tools(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "schemas")) as fleet:
        ids = ids_of(fleet, "one")
        assert {"one/echo", "one/untyped"} <= ids
        assert not any("bad_" in one for one in ids)
        problems = fleet.problems()["one"]
        assert len(problems) == 9
        assert any("'bad_0' is left out: inputSchema" in one for one in problems)
        assert text_of(await call(fleet, "one/untyped")) == "{}"


@pytest.mark.no_cover
async def test_a_list_of_ten_thousand_tools_is_cut_and_named(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "many")) as fleet:
        assert len(ids_of(fleet, "one")) == 10_000
        assert fleet.problems()["one"] == ["it lists more than 10,000 tools; the rest is left out"]
        assert text_of(await call(fleet, "one/tool_9999")) == "{}"


@pytest.mark.parametrize(
    ("mode", "problem"),
    [("endless", "more than 200 pages"), ("circle", "has no end: page 2")],
)
async def test_a_list_without_end_is_cut_and_named(tmp_path, mode, problem):
    async with running(tmp_path, rough(tmp_path, "one", mode)) as fleet:
        assert problem in fleet.problems()["one"][0]
        assert text_of(await call(fleet, "one/echo")) == "{}"


async def test_every_page_is_read(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "pages")) as fleet:
        assert len(ids_of(fleet, "one")) == 12
        assert fleet.problems() == {"one": []}


async def test_a_description_of_megabytes_is_cut_and_named(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "megabytes")) as fleet:
        assert len(fleet.engine.catalog.get("one/long").description) < 20_000
        assert "1,500,000 characters" in fleet.problems()["one"][0]
        saved = sum(path.stat().st_size for path in (tmp_path / "manifests").iterdir())
        assert saved < 100_000


@pytest.mark.no_cover
async def test_lists_are_bounded_over_all_their_pages(tmp_path):
    before = getrusage(RUSAGE_SELF).ru_maxrss
    async with running(tmp_path, rough(tmp_path, "one", "heavy")) as fleet:
        gateway = Gateway(fleet, Profile(pass_through=0.0))
        async with Client(gateway.server) as client:
            assert text_of(await call(fleet, "one/echo")) == "{}"
            (resource,) = (await client.list_resources()).resources
            (template,) = (await client.list_resource_templates()).resource_templates
            first, second = (await client.list_prompts()).prompts
    # Each list is read up to its first page that is too long: tools, resources, templates, prompts.
    assert noted(tmp_path, "one", "lists") == 4
    assert (getrusage(RUSAGE_SELF).ru_maxrss - before) * 1_024 < 500_000_000
    for entry in (resource, template):
        assert (len(entry.name), len(entry.title), len(entry.description)) == (256, 256, 16_384)
        assert (entry.meta, entry.icons) == (None, None)
    assert (len(first.description), len(first.arguments[0].description)) == (16_384, 16_384)
    assert len(second.arguments) == 100
    problems = fleet.problems()["one"]
    for expected in (
        "the text of its instructions has 25,000,000 characters; only the first 20,000 are read",
        "its list of tools has more than 16,000,000 bytes; the rest is left out",
        "its list of resources has more than 4,000,000 bytes; the rest is left out",
        "its list of resource templates has more than 4,000,000 bytes; the rest is left out",
        "its list of prompts has more than 4,000,000 bytes; the rest is left out",
        "resource 'memo:plain': its description has 50,000 characters; only the first 16,384 are "
        "read",
        "resource 'memo:plain': its meta has more than 20,000 bytes; left out",
        "prompt 'many': it has 500 arguments; only the first 100 are read",
    ):
        assert expected in problems
    assert any("characters, more than 4,096" in problem for problem in problems)
    assert any(problem.startswith("prompt 'nnn") for problem in problems)


async def test_a_result_that_breaks_its_own_schema_is_passed_on(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        result = await call(fleet, "one/promises")
        assert result.structured_content == {"y": 1}
        with pytest.raises(UpstreamError, match="not valid MCP"):
            await call(fleet, "one/no_result")
        assert text_of(await call(fleet, "one/echo")) == "{}"
        assert noted(tmp_path, "one", "starts") == 1


@pytest.mark.no_cover
async def test_a_flood_of_changes_is_read_a_few_times(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        changed = []
        fleet.on_change = changed.append
        for _ in range(5):
            await call(fleet, "one/change", times=2_000)
        await until(lambda: "one/extra_4" in fleet.engine.catalog)
        await anyio.sleep(1)
        # Ten thousand notifications: how many arrive between two readings depends on the machine.
        assert noted(tmp_path, "one", "lists") <= 20
        assert 1 <= len(changed) <= 5
        encoded_for = len(fleet.engine.catalog)
        assert encoded_for == 12 + 5


async def test_one_hangs_one_crashes_one_is_noisy_and_the_others_work(tmp_path):
    specs = (
        rough(tmp_path, "hangs", "hangs", start_timeout_s=1.0),
        rough(tmp_path, "crashes", "crashes"),
        rough(tmp_path, "noisy", "noisy"),
        rough(tmp_path, "good"),
    )
    async with running(tmp_path, *specs) as fleet:
        gateway = Gateway(fleet, Profile(pass_through=0.0))
        async with Client(gateway.server) as client:

            async def asked(name):
                given = {"name": name, "arguments": {}}
                return await client.call_tool("call_tool", given)

            assert text_of(await asked("good/echo")) == "{}"
            assert text_of(await asked("noisy/echo")) == "{}"
            died = await asked("good/die")
            assert died.is_error
            assert "server 'good' ended during the call" in text_of(died)
            assert text_of(await asked("good/die")) == "alive"
            rows = (await client.call_tool("list_servers", {})).structured_content["servers"]
            states = {row["name"]: row["state"] for row in rows}
            assert states == {
                "hangs": "failed",
                "crashes": "failed",
                "noisy": "started",
                "good": "started",
            }
        problems = fleet.problems()
        setting = "`start_timeout_s` in its entry sets another limit"
        assert problems["hangs"] == [f"it did not start within 1 s; {setting}"]
        assert problems["crashes"] != []
        assert "this server cannot start" in (tmp_path / "logs" / "crashes.log").read_text()
