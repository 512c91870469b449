"""The servers together: manifests, changes of the configuration, servers known by a description."""

from __future__ import annotations

import json
import time

import anyio
import pytest
from mcp import Client

from shortlist.errors import CatalogError
from shortlist.gateway.config_watch import reload_on_change
from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.tests.gateway.fleets import (
    BareCall,
    call,
    fleet_of,
    noted,
    rough,
    running,
    text_of,
    until,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_servers_start_in_parallel(tmp_path):
    specs = [rough(tmp_path, f"slow{number}", "hangs", start_timeout_s=1.5) for number in range(8)]
    start = time.monotonic()
    async with running(tmp_path, *specs) as fleet:
        assert time.monotonic() - start < 9
        assert {one.state for one in fleet.upstreams.values()} == {"failed"}


async def test_a_manifest_is_of_one_command(tmp_path):
    one = rough(tmp_path, "one")
    async with running(tmp_path, one):
        pass
    for spec, known in (
        (one, True),
        (one.model_copy(update={"args": (*one.args, "more")}), False),
    ):
        fleet = fleet_of(tmp_path, spec)
        assert (len(fleet.engine.catalog) > 0) is known
        assert (fleet.unlisted_servers == ()) is known


async def test_problems_of_a_list_are_known_before_its_server_starts(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one", "schemas")) as fleet:
        told = fleet.problems()
    assert len(told["one"]) == 9
    assert fleet_of(tmp_path, rough(tmp_path, "one", "schemas")).problems() == told


async def test_a_reload_changes_only_what_differs_and_calls_in_flight_finish(tmp_path):
    same, gone, changed = (rough(tmp_path, name) for name in ("same", "gone", "changed"))
    results = {}

    async def slow(name):
        results[name] = text_of(await call(fleet, f"{name}/sleep", steps=1, seconds=1.5))

    async with running(tmp_path, same, gone, changed) as fleet:
        assert noted(tmp_path, "same", "starts") == 1
        new = rough(tmp_path, "new")
        async with anyio.create_task_group() as group:
            for name in ("gone", "changed"):
                group.start_soon(slow, name)
            await until(lambda: noted(tmp_path, "changed", "called_sleep") == 1)
            await until(lambda: noted(tmp_path, "gone", "called_sleep") == 1)
            other = changed.model_copy(update={"timeout_s": 5.0})
            await fleet.reload([same, other, new])
            assert set(fleet.upstreams) == {"same", "changed", "new"}
            assert "gone/echo" not in fleet.engine.catalog
            assert "changed/echo" in fleet.engine.catalog
            assert results == {}
        assert results == {"gone": "slept", "changed": "slept"}
        await until(lambda: "new/echo" in fleet.engine.catalog)
        assert text_of(await call(fleet, "new/echo")) == "{}"
        assert text_of(await call(fleet, "changed/echo")) == "{}"
        assert text_of(await call(fleet, "same/echo")) == "{}"
        assert noted(tmp_path, "same", "starts") == 1
        assert noted(tmp_path, "changed", "starts") == 2
        left = (tmp_path / "gone" / "pid").read_text()
        await until(lambda: not (tmp_path / "running" / f"{left}.json").exists())


async def test_a_changed_file_is_taken_over_and_a_broken_one_changes_nothing(tmp_path, caplog):
    folder = tmp_path / "config"
    folder.mkdir()
    path = folder / "mcp.json"

    def write(*specs, text=None):
        rows = {one.name: {"command": one.command, "args": list(one.args)} for one in specs}
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"mcpServers": rows}) if text is None else text)
        new.replace(path)

    one, two = rough(tmp_path, "one"), rough(tmp_path, "two")
    write(one)
    async with running(tmp_path, one) as fleet:
        async with anyio.create_task_group() as group:
            group.start_soon(reload_on_change, path, fleet)
            await anyio.sleep(0.5)
            write(one, two)
            await until(lambda: "two/echo" in fleet.engine.catalog)
            write(text="{ broken")
            await until(lambda: "keep their old configuration" in caplog.text)
            assert set(fleet.upstreams) == {"one", "two"}
            unusable = {"one": {"command": "x", "env": {"A": "${SURELY_NOT_SET}"}}}
            write(text=json.dumps({"mcpServers": unusable}))
            await until(lambda: set(fleet.upstreams) == {"one"})
            assert "SURELY_NOT_SET" in caplog.text
            assert text_of(await call(fleet, "one/echo")) == "{}"
            group.cancel_scope.cancel()
            stopped_at = anyio.current_time()
        # The thread that watches the file ends at once, not after its wait of five seconds.
        assert anyio.current_time() - stopped_at < 3


async def test_a_server_known_by_its_description_is_found_and_started_by_a_call(tmp_path):
    spec = rough(tmp_path, "fleet")
    described = {"fleet": "Trucks and vans: where they are, who drives them"}
    async with running(tmp_path, spec, rough(tmp_path, "other"), descriptions=described) as fleet:
        gateway = Gateway(fleet, Profile(pass_through=0.0))
        async with Client(gateway.server) as client:

            async def first(**query):
                found = await client.call_tool("search_tools", query)
                assert "starting" not in str(found.structured_content["notes"])
                return found.structured_content["tools"][0]["name"]

            assert await first(query="who drives the vans") == "fleet/start_server"
            told = await client.call_tool("get_tool_details", {"names": ["fleet/start_server"]})
            assert "Call this to start" in text_of(told)
            assert noted(tmp_path, "fleet", "starts") == 0
            started = await client.call_tool("call_tool", {"name": "fleet/start_server"})
            assert not started.is_error
            assert started.structured_content == {"server": "fleet", "started": True}
            assert await first(query="echo", server="fleet") == "fleet/echo"
            given = {"name": "fleet/echo", "arguments": {"a": 1}}
            assert text_of(await client.call_tool("call_tool", given)) == '{"a": 1}'
            again = await client.call_tool("call_tool", {"name": "fleet/start_server"})
            assert again.is_error
    # From now on its own tools are known.
    fleet = fleet_of(tmp_path, spec, descriptions=described)
    assert "fleet/echo" in fleet.engine.catalog
    assert "fleet/start_server" not in fleet.engine.catalog


async def test_a_tool_of_no_server_is_an_error(tmp_path):
    async with running(tmp_path, rough(tmp_path, "one")) as fleet:
        await fleet.reload([])
        assert len(fleet.engine.catalog) == 0
        with pytest.raises(CatalogError, match="no server 'one'"):
            await fleet.send(BareCall("one", "echo", {}))


async def test_the_index_is_kept_so_that_a_start_encodes_nothing(tmp_path):
    spec = rough(tmp_path, "one")
    settings = {"engine_settings": {}}
    async with running(tmp_path, spec, **settings) as fleet:
        await until(lambda: fleet.engine.build_progress.done)
        found = fleet.engine.search("make noise").ids
        await until(lambda: list((tmp_path / "manifests" / "index").glob("*/CURRENT")))
    again = fleet_of(tmp_path, spec, **settings)
    assert again.engine.wait(60).done
    assert again.engine.build_progress.newly_encoded == 0
    assert again.engine.search("make noise").ids == found
    for path in (tmp_path / "manifests" / "index").glob("*/v-*/manifest.json"):
        path.write_text("damaged")
    async with running(tmp_path, spec, **settings) as damaged:
        await until(
            lambda: damaged.engine.build_progress.newly_encoded == len(damaged.engine.catalog)
        )
        damaged.engine.wait(60)
        assert damaged.engine.search("make noise").ids == found
        await until(lambda: list((tmp_path / "manifests" / "index").glob("*/CURRENT")))
    assert fleet_of(tmp_path, spec, **settings).engine.build_progress.newly_encoded == 0
