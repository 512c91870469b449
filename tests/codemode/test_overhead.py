"""What code mode costs beyond the type check, with limits that a busy machine keeps."""

from __future__ import annotations

import asyncio

import pytest

from shortlist.codemode.broker import Broker
from shortlist.codemode.script_names import ToolNames

from .overhead import SCRIPTS, WAIT, of_gateway, of_scripts
from .servers import ENGINE, Servers, new_session


@pytest.mark.no_cover
def test_an_empty_script_and_a_call_cost_little_and_scripts_wait_at_the_same_time():
    # The quickest of three: other programs on the machine only add to the time.
    found = [asyncio.run(of_scripts()) for _ in range(3)]
    assert min(one["empty script"] for one in found) < 5
    # Where the machine is busy for the whole time, a direct call takes longer, too.
    assert any(one["call beyond a direct one"] < max(1, 3 * one["direct call"]) for one in found)
    # One after the other they would take eight times as long.
    assert min(one["eight scripts that wait"] for one in found) < WAIT * 1e3 * SCRIPTS / 2


@pytest.mark.no_cover
def test_eight_scripts_that_compute_do_not_block_the_gateway(tmp_path):
    found = asyncio.run(of_gateway(tmp_path))
    assert found["search while eight scripts compute"] < 500
    assert found["gateway call while eight scripts compute"] < 500


def test_the_broker_counts_what_it_refuses():
    servers = Servers()
    names = ToolNames(ENGINE.catalog)
    broker = Broker(new_session(), names, servers.call, code="", call_limit=3)

    async def main():
        for _ in range(3):
            await broker.call("logs", "count_lines", (), {})
        try:
            await broker.call("logs", "count_lines", (), {})
        except RuntimeError as error:
            return str(error)
        return ""

    assert "more than 3 tool calls" in asyncio.run(main())
    assert len(servers.calls) == 3
