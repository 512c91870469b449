"""Progress and cancellation between a client of either era, the gateway and a server."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client

from shortlist.gateway.profiles.profile import Profile
from shortlist.gateway.server import Gateway
from shortlist.tests.gateway.fleets import noted, rough, running, text_of, until


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_progress_reaches_the_client_and_its_cancellation_the_server(tmp_path, era):
    seen = []

    async def progress(done, total, message):
        seen.append((done, message))

    async with running(tmp_path, rough(tmp_path, "one", timeout_s=1.0)) as fleet:
        gateway = Gateway(fleet, Profile(pass_through=0.0))
        async with Client(gateway.server, mode=era) as client:

            async def slept(steps, **arguments):
                given = {"steps": steps, "seconds": 0.3, "progress": True, **arguments}
                asked = {"name": "one/sleep", "arguments": given}
                return await client.call_tool("call_tool", asked, progress_callback=progress)

            assert text_of(await slept(5)) == "slept"
            assert seen == [(1.0, "on it")] * 5
            with anyio.move_on_after(0.5):
                await slept(100)
            await until(lambda: noted(tmp_path, "one", "cancelled") == 1)
            silent = await slept(100, progress=False)
            assert silent.is_error
            assert "did not answer within 1 s" in text_of(silent)
