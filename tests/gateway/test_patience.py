"""The limit of time of a request: progress starts it anew, a question stops it."""

from __future__ import annotations

import anyio
import pytest

from shortlist.gateway.upstream.call import TimeLimit

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_no_time_passes_while_the_client_is_asked():
    with TimeLimit(0.2) as patience, patience.paused():
        with patience.paused():
            await anyio.sleep(0.15)
        patience.extend()
        await anyio.sleep(0.3)


async def test_time_runs_again_after_the_question():
    async def late():
        with TimeLimit(0.1) as patience:
            with patience.paused():
                await anyio.sleep(0.2)
            await anyio.sleep(5)

    with pytest.raises(TimeoutError):
        await late()
